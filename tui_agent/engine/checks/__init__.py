"""What a request asks for, read from its words, and checks of changed files that run nothing."""

from __future__ import annotations
