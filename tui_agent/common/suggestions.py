"""Suggesting the name that was meant, for errors about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

SIMILARITY = 0.75
"""Similarity from which a name is suggested, from 0 to 1."""


def closest_name(name: str, names: Iterable[str], similarity: float = SIMILARITY) -> str:
    """Return the most similar of `names`, ignoring case and the kind of dashes; empty if none is similar enough."""
    import difflib  # takes some milliseconds, and only an error needs it

    by_form = {_form(known): known for known in names}
    if swapped := [known for form, known in by_form.items() if sorted(form) == sorted(_form(name))]:
        return swapped[0]
    matches = difflib.get_close_matches(_form(name), by_form, n=1, cutoff=similarity)
    return by_form[matches[0]] if matches else ""


def did_you_mean(name: str, names: Iterable[str], similarity: float = SIMILARITY) -> str:
    """Return "; did you mean `x`?" for the most similar of `names`; empty if none is similar enough."""
    match = closest_name(name, names, similarity)
    return f"; did you mean `{match}`?" if match else ""


def _form(name: str) -> str:
    return name.lower().replace("_", "-").strip("-")
