"""Find the secrets in environment variables, which `SecretMask` hides (A7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

MIN_LENGTH = 8
"""Shorter values are not masked, as they may be ordinary words."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|SECRETS?|TOKENS?|CREDENTIALS?|AUTH|AUTHORIZATION|PAT|COOKIE|DSN|"
    r"APIKEY|KEY|SESSION|SIGNATURE|WEBHOOK|CONNECTION_?STRING)(?:_|\d|$)"
    r"|(?:API|ACCESS|PRIVATE|SECRET|SIGNING|ENCRYPTION|MASTER)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL"
)
_ORDINARY_NAME = re.compile(
    r"^(?:PWD|OLDPWD|SESSION_MANAGER|XDG_SESSION_.*|DESKTOP_SESSION|GDMSESSION|.*_SESSION_ID|.*_SOCK|TOKENIZERS_.*|"
    r".*_(?:PATH|FILE|DIR|URL|ENV|TYPE|ID|NAME|LIMIT|TIMEOUT)|KEY_?(?:MAP|BOARD|TIMEOUT)|MAX_TOKENS)$"
)
_ORDINARY_VALUE = re.compile(r"^(?:[a-z]+|[A-Z]+|\d{1,12}|https?://[^\s@]*|[~/.][^\s]*)$")
_TEMPLATE = re.compile(r"^[<${\[].*[>}\]]$|^(?:your|change|replace|example|dummy|xxx)", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name probably contains a secret."""
    name = name.upper()
    return bool(_SECRET_NAME.search(name)) and not _ORDINARY_NAME.match(name)


def values_to_mask(
    environ: Mapping[str, str], tokens: Collection[str] = (), token_name: str = "LLM_AUTH_TOKEN"
) -> dict[str, str]:
    """Return name → value of secrets: variables with a secret's name, and the `tokens` of the model servers."""
    values: dict[str, str] = {}
    for name, text in environ.items():
        value = text.strip()
        if len(value) >= MIN_LENGTH and is_secret_name(name) and not _is_ordinary(value):
            values[name] = value
    for number, token in enumerate(tokens, 1):
        values[token_name if number == 1 else f"{token_name} {number}"] = token
    return values


def _is_ordinary(value: str) -> bool:
    """Return whether the value is a word, a small number, a path or a URL without a password."""
    if _TEMPLATE.match(value):
        return True
    return bool(_ORDINARY_VALUE.match(value)) and (len(value) < 16 or value[0] in "~/." or "://" in value)
