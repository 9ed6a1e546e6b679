"""Suggesting the name that was meant, for errors about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SIMILARITY = 0.75
"""Similarity from which a name is suggested, from 0 to 1."""


def similar_names(name: str, names: Iterable[str], count: int = 3, similarity: float = SIMILARITY) -> list[str]:
    """Return up to `count` of `names` that are similar enough, ignoring case, the most similar first."""
    import difflib  # takes some milliseconds, and only an error needs it

    by_lower = {known.lower(): known for known in names}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, count, similarity)]


def closest_name(name: str, names: Iterable[str], similarity: float = SIMILARITY) -> str:
    """Return the most similar of `names`, ignoring case and the kind of dashes; empty if none is similar enough."""
    by_form = {_form(known): known for known in names}
    if swapped := [known for form, known in by_form.items() if sorted(form) == sorted(_form(name))]:
        return swapped[0]
    matches = similar_names(_form(name), by_form, 1, similarity)
    return by_form[matches[0]] if matches else ""


def did_you_mean(name: str, names: Iterable[str], similarity: float = SIMILARITY) -> str:
    """Return "; did you mean `x`?" for the most similar of `names`; empty if none is similar enough."""
    match = closest_name(name, names, similarity)
    return f"; did you mean `{match}`?" if match else ""


def unknown_name(noun: str, name: str, names: Sequence[str]) -> str:
    """Return that `name`, which must be displayable, is not a `noun`, with the name that was meant or all `names`."""
    all_names = f"; choose one of {', '.join(names)}"
    article = "an" if noun[0] in "aeiou" else "a"
    return f"`{name}` is not {article} {noun}{did_you_mean(name, names) or all_names}"


def _form(name: str) -> str:
    return name.lower().replace("_", "-").strip("-")
