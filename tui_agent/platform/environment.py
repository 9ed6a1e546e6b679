"""The environment that child processes get: named variables only, none of them a secret (A7, D20)."""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Mapping

PASSED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*_HOME",
    "XDG_RUNTIME_DIR",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYENV_ROOT",
    "NVM_DIR",
    "NVM_BIN",
    "VOLTA_HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "JAVA_HOME",
    "ANDROID_HOME",
    "SDKMAN_DIR",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "DOTNET_ROOT",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "CC",
    "CXX",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "NIX_SSL_CERT_FILE",
    "SYSTEMROOT",
)
SECRET = ("*TOKEN*", "*KEY*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*", "LLM_*", "TUI_AGENT_*")
"""Never passed, whatever else matches."""
FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}
"""So that no program asks, pages or opens an editor; the last shows output while it happens."""


def is_secret(name: str) -> bool:
    """Whether a variable of this name is kept from children."""
    return any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in SECRET)


def child_environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for a command of the user's or the model's, from `source` (our own environment)."""
    source = os.environ if source is None else source
    environment = {
        name: value
        for name, value in source.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in PASSED) and not is_secret(name)
    }
    environment.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    environment.setdefault("HOME", os.path.expanduser("~"))
    return _speaking_utf8(environment) | FIXED


def bare_environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for a command that runs unasked: a fixed PATH, language and time zone, nothing else (R-12)."""
    source = os.environ if source is None else source
    wanted = {
        name: value
        for name, value in source.items()
        if name in ("LANG", "TZ") or (name.startswith("LC_") and not is_secret(name))
    }
    return _speaking_utf8(wanted) | {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}


def _speaking_utf8(environment: dict[str, str]) -> dict[str, str]:
    """Where the locale is C or unset, characters are UTF-8 all the same (D18)."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    effective = next((environment[name] for name in names if environment.get(name)), "")
    if "utf" not in effective.lower():
        environment.pop("LC_ALL", None)
        environment["LC_CTYPE"] = "UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    return environment
