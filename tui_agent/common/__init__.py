"""Plain values, paths and tables that every package uses."""
