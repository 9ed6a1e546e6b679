"""Statistics computed from the journals of all sessions (S4)."""
