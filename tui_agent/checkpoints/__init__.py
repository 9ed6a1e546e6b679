"""Snapshots of files, stored by hash, and undoing changes (K1)."""
