from __future__ import annotations

import pytest

from tui_agent.safety.roots import credentials_at
from tui_agent.safety.secrets import is_secret_name, values_to_mask
from tui_agent.text import SecretMask

SECRET = [
    "LLM_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "DB_PASSWORD",
    "PGPASSWORD",
    "MYSQL_PWD",
    "MY_PASS",
    "SENTRY_DSN",
    "NPM_TOKEN",
    "github_pat",
    "KEY",
    "STRIPE_KEY",
    "Slack_Webhook",
    "SESSION_COOKIE",
]
ORDINARY = [
    "PATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "SSH_AUTH_SOCK",
    "XDG_SESSION_ID",
    "DESKTOP_SESSION",
    "KEYBOARD",
    "MONKEY",
    "TOKENIZERS_PARALLELISM",
    "SECRET_FILE",
    "API_KEY_PATH",
    "COMPASS",
    "AUTHOR",
    "MAX_TOKENS",
    "KEYTIMEOUT",
]


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names(name):
    assert not is_secret_name(name)


def test_values_to_mask():
    environ = {
        "OPENAI_API_KEY": "abcDEF123456",
        "SHORT_TOKEN": "abc12",
        "FLAG_TOKEN": "disabled",
        "FILE_TOKEN": "/run/secrets/token",
        "URL_TOKEN": "https://token.example/get",
        "EXAMPLE_API_KEY": "<your key here>",
        "PATH": "/usr/bin:/bin",
        "LONG_PASSWORD": "onlylowercaseletterslong",
    }
    assert set(values_to_mask(environ)) == {"OPENAI_API_KEY", "LONG_PASSWORD"}
    assert values_to_mask({}, ["word"]) == {"LLM_AUTH_TOKEN": "word"}
    masked = SecretMask(values_to_mask(environ, ["tok-1"])).mask("abcDEF123456 tok-1 disabled")
    assert masked == "⟨secret OPENAI_API_KEY, 12 characters⟩ ⟨secret LLM_AUTH_TOKEN, 5 characters⟩ disabled"


def test_files_with_credentials():
    assert credentials_at("/w/.env") and credentials_at("/home/u/.ssh/id_rsa") and credentials_at("/etc/shadow")
    assert not credentials_at("/w/.env.example") and not credentials_at("/w/env.py")
