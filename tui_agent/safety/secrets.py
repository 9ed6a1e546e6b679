"""Which secrets there are: what `text.SecretMask` hides (A7)."""

from __future__ import annotations

import re
from collections.abc import Mapping

SHORTEST = 8
"""Values of variables that are shorter are no secrets worth the name; they would mask ordinary words."""

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
    """Whether a variable of this name is thought to hold a secret."""
    name = name.upper()
    return bool(_SECRET_NAME.search(name)) and not _ORDINARY_NAME.match(name)


def values_to_mask(
    environ: Mapping[str, str], token: str | None = None, token_name: str = "LLM_AUTH_TOKEN"
) -> dict[str, str]:
    """Name → value of what must never be shown: secret-named variables, and the model server's `token`."""
    values: dict[str, str] = {}
    for name, written in environ.items():
        value = written.strip()
        if len(value) >= SHORTEST and is_secret_name(name) and not _looks_ordinary(value):
            values[name] = value
    if token:
        values[token_name] = token
    return values


def _looks_ordinary(value: str) -> bool:
    """A word, a small number, a path or an address without a password is no secret, whatever the variable's name."""
    if _TEMPLATE.match(value):
        return True
    return bool(_ORDINARY_VALUE.match(value)) and (len(value) < 16 or value[0] in "~/." or "://" in value)
