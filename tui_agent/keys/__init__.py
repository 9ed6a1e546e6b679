"""The names of keys, and which key runs which action."""
