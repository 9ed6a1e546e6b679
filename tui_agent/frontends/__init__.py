"""Surfaces other than the full screen."""
