"""A model server that simulates the mistakes of small local models."""

from __future__ import annotations
