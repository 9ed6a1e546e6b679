"""Key names, and the keys of all actions and commands."""
