"""Errors that several layers raise or handle."""

from __future__ import annotations


class CodedError(Exception):
    """An error whose `str()` is a sentence for the user and whose `code` names its kind; subclasses list the kinds."""

    def __init__(self, message: str, code: str = "other") -> None:
        super().__init__(message)
        self.code = code


class JournalBroken(Exception):
    """The session can't be saved at the moment, so side effects are forbidden.

    The message names file and cause. Records stay in memory until they can be written.
    """


class SearchStopped(Exception):
    """The search was cancelled."""
