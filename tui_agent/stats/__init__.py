"""What the journals of all sessions say in numbers (S4)."""
