"""A model server whose model makes the mistakes of small local models."""

from __future__ import annotations
