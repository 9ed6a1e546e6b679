"""The base of errors that carry a machine-readable kind."""

from __future__ import annotations


class CodedError(Exception):
    """An error whose `str()` is a sentence for the user and whose `code` names its kind; subclasses list the kinds."""

    def __init__(self, message: str, code: str = "other") -> None:
        super().__init__(message)
        self.code = code
