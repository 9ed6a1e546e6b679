"""Thirty kinds of secrets, texts that contain them, and a search for leaks."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path

_RANDOM = random.Random("planted")


def _letters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_RANDOM.choice(alphabet) for _ in range(count))


_LINES = "\n".join(_letters(64, string.ascii_letters + string.digits + "+/") for _ in range(4))

BY_FORMAT: dict[str, str] = {
    "anthropic": "sk-ant-api03-7" + _letters(40),
    "openai": "sk-proj-1" + _letters(40),
    "stripe": "sk_live_" + _letters(24),
    "groq": "gsk_" + _letters(48),
    "google": "AIza" + _letters(35),
    "sendgrid": f"SG.{_letters(22)}.{_letters(43)}",
    "digitalocean": "dop_v1_" + _letters(64, "0123456789abcdef"),
    "github": "ghp_" + _letters(36),
    "github fine": "github_pat_" + _letters(40),
    "gitlab": "glpat-" + _letters(20),
    "aws id": "AKIA" + _letters(16, string.ascii_uppercase + string.digits),
    "slack": "xoxb-" + _letters(30, string.digits),
    "google oauth": "ya29." + _letters(60),
    "npm": "npm_" + _letters(36),
    "pypi": "pypi-" + _letters(60),
    "hugging face": "hf_" + _letters(34),
    "jwt": f"eyJ{_letters(30)}.eyJ{_letters(60)}.{_letters(43)}",
    "pem": f"-----BEGIN RSA PRIVATE KEY-----\n{_LINES}\n-----END RSA PRIVATE KEY-----",
}
"""Recognized by their format."""

BY_CONTEXT: dict[str, tuple[str, str]] = {
    "bearer": ("Authorization: Bearer {}", _letters(32)),
    "api key": ("X-Api-Key: {}", "4" + _letters(31)),
    "url": ("postgres://app:{}@db.example/prod", "pw" + _letters(14)),
    "aws secret": ("aws_secret_access_key = {}", _letters(40)),
}
"""Recognized by the text before them."""

BY_VARIABLE: dict[str, str] = {
    "LLM_AUTH_TOKEN": "plain-" + _letters(20),
    "DEPLOY_PASSWORD": "correct horse battery staple",
    "QUOTED_SECRET": 'q"u\\o te/' + _letters(8),
    "UMLAUT_TOKEN": "größe-" + _letters(12),
    "SERVICE_CREDENTIALS": "line one of it\n" + _letters(30) + "\nline three",
    "SIGNING_KEY": _letters(16),
    "SESSION_COOKIE": _letters(24, "0123456789abcdef"),
    "DB_DSN": "mysql://root:x@h/" + _letters(10),
}
"""Values of environment variables with telling names."""

SECRETS: dict[str, str] = {**BY_FORMAT, **{name: value for name, (_, value) in BY_CONTEXT.items()}, **BY_VARIABLE}
SECRET_TEXTS: dict[str, str] = {
    **BY_FORMAT,
    **{name: around.format(value) for name, (around, value) in BY_CONTEXT.items()},
    **BY_VARIABLE,
}
"""Secrets in their context."""
ALL_SECRETS_TEXT = "\n".join(f"{number}: {text} ." for number, text in enumerate(SECRET_TEXTS.values()))

assert len(SECRETS) == 30


def secret_parts(secret: str) -> list[str]:
    """Return what must not appear of a secret: all of it, and each long line."""
    return [secret, *(line for line in secret.split("\n") if len(line) >= 24 and "PRIVATE KEY" not in line)]


def find_leaks(text: str) -> list[str]:
    """Return the names of the secrets found in `text`, also if wrapped over lines or escaped as in JSON."""
    forms = [text, text.replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "\n")]
    forms.append(re.sub(r"\s+", "", text))
    found = []
    for name, secret in SECRETS.items():
        tight = re.sub(r"\s+", "", secret)
        if any(part in form for part in secret_parts(secret) for form in forms[:2]) or tight in forms[2]:
            found.append(name)
    return found


def find_leaks_in(folder: Path, *exact: str) -> dict[str, list[str]]:
    """Return the secrets in files below `folder`, except files named `exact` or in folders of that name."""
    return {
        file.name: names
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not {*file.relative_to(folder).parts} & {*exact}
        if (names := find_leaks(file.read_bytes().decode("utf-8", "replace")))
    }
