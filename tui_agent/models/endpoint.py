"""Where a model server is: its address without secrets, whether it is near, which proxy and certificates lead there."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec

_NEAR_SUFFIXES = (".localhost", ".local", ".lan", ".internal", ".home.arpa")
_PROXY_SCHEMES = ("http", "https")


class BadAddress(ValueError):
    """A base URL that can't be one; the message is for the user."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A server's address, taken apart once. Only `authorization`, `proxy` and `secrets` are secret."""

    base: str
    """Scheme, host, port and path without a slash at the end."""
    query: str = ""
    """Sent with every request, for servers that want a version there."""
    local: bool
    """On this machine or in a private network: proxies are never used, and it may be slow (M7)."""
    authorization: str | None = None
    """Value of the header; sent to this origin only."""
    proxy: str | None = None
    problem: str = ""
    """Why no client can be built, such as a proxy of an unknown kind."""
    ca: str | None = None
    """File or folder with certificates to trust instead of the usual ones."""
    secrets: tuple[str, ...] = ()
    """Texts that must not appear in any message."""

    @property
    def shown(self) -> str:
        """What the user sees."""
        return self.base

    @property
    def root(self) -> str:
        """Scheme, host and port only."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def caution(self) -> str:
        """A sentence to show once when text and token travel readable for others, else empty."""
        if self.local or self.base.startswith("https:"):
            return ""
        return f"{self.base} is remote and not encrypted: others on the network can read what is sent."

    def url(self, path: str) -> str:
        """The full URL of `path` below the base; a path that begins with `//` is meant from the root."""
        whole = self.root + path[1:] if path.startswith("//") else self.base + path
        return f"{whole}?{self.query}" if self.query else whole


def endpoint(base_url: str, token: str | None, env: Mapping[str, str]) -> Endpoint:
    """Take `base_url` apart. `token` goes out as a bearer; user and password in the URL do if there is no token.

    Raises BadAddress.
    """
    text = base_url.strip()
    if "://" not in text:
        near = is_near(_split("http://" + text).hostname or "")
        text = ("http://" if near else "https://") + text
    parts = _split(text)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise BadAddress(f"The model server's address must begin with http:// or https://, not {_unsecret(parts)!r}.")
    if any(ord(letter) <= 0x20 or ord(letter) == 0x7F for letter in text):
        raise BadAddress("The model server's address contains spaces or control characters.")
    secrets = [secret for secret in (token, parts.password and unquote(parts.password)) if secret]
    authorization = _authorization(token, parts)
    if authorization and not authorization.isascii():
        raise BadAddress("The token for the model server contains characters that are not allowed in an HTTP header.")
    local = is_near(host)
    proxy, problem = (None, "") if local else _proxy_for(parts, env)
    if proxy and (password := urlsplit(proxy).password):
        secrets.append(unquote(password))
    return Endpoint(
        base=_unsecret(parts._replace(query="", fragment="")).rstrip("/"),
        query=parts.query,
        local=local,
        authorization=authorization,
        proxy=proxy,
        problem=problem,
        ca=env.get("LLM_CA") or env.get("SSL_CERT_FILE") or env.get("SSL_CERT_DIR") or None,
        secrets=tuple(secrets),
    )


def is_near(host: str) -> bool:
    """Loopback, a private network, or a name that only such a network resolves."""
    name = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return name == "localhost" or "." not in name or name.endswith(_NEAR_SUFFIXES)
    return not address.is_global


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadAddress(f"The model server's address can't be read: {error}.") from None
    return parts


def _unsecret(parts: SplitResult) -> str:
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _authorization(token: str | None, parts: SplitResult) -> str | None:
    if token and token.strip():
        return f"Bearer {token.strip()}"
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return None


# --- proxies --------------------------------------------------------------------------------


def _proxy_for(parts: SplitResult, env: Mapping[str, str]) -> tuple[str | None, str]:
    """The proxy that the environment names for this address, and why it can't be used, if so."""
    if _exempt(parts, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None, ""
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if value := env.get(variable, "").strip():
                url = value if "://" in value else "http://" + value
                scheme = url.partition(":")[0].lower()
                if scheme not in _PROXY_SCHEMES:
                    return None, (
                        f"The proxy in {variable} has the scheme {scheme!r}, which is not supported. Use an http:// "
                        f"proxy, or put {parts.hostname} into NO_PROXY."
                    )
                return url, ""
    return None, ""


def _exempt(parts: SplitResult, rules: str) -> bool:
    host, port = (parts.hostname or "").lower(), str(parts.port or (443 if parts.scheme == "https" else 80))
    for rule in rules.lower().replace(",", " ").split():
        if rule == "*" or _in_network(host, rule):
            return True
        name, _, wanted = rule.partition(":")
        if wanted and wanted != port:
            continue
        name = name.removeprefix("*").removeprefix(".")
        if name and (host == name or host.endswith("." + name)):
            return True
    return False


def _in_network(host: str, rule: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False
