"""Subcommands that work without a session screen."""
