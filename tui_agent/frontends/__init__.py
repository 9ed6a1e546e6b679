"""Faces of the agent other than the screen."""
