"""The agent line by line: no screen, no cursor tricks, plain text from top to bottom (X2)."""
