"""What errors have in common that are told apart by a word."""

from __future__ import annotations


class CodedError(Exception):
    """`str()` is a sentence, `code` the kind; subclasses say which there are."""

    def __init__(self, message: str, code: str = "other") -> None:
        super().__init__(message)
        self.code = code
