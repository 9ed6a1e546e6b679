"""The address of a model server: base URL without secrets, whether it is local, proxy and certificates."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec

_LOCAL_SUFFIXES = (".localhost", ".local", ".lan", ".internal", ".home.arpa")
_PROXY_SCHEMES = ("http", "https")


class BadAddress(ValueError):
    """An invalid base URL; the message is for the user."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed server address. Only `authorization`, `proxy` and `secrets` are secret."""

    base: str
    """Scheme, host, port and path, without a trailing slash."""
    query: str = ""
    """Query string sent with every request; some servers expect a version there."""
    local: bool
    """On this machine or in a private network: no proxy is used, and it may be slow (M7)."""
    authorization: str | None = None
    """Value of the Authorization header; sent to this origin only."""
    proxy: str | None = None
    problem: str = ""
    """Why no client can be built, such as an unsupported proxy."""
    ca: str | None = None
    """File or folder with certificates to trust instead of the default ones."""
    secrets: tuple[str, ...] = ()
    """Texts that must not appear in messages."""
    token_source: str = "LLM_AUTH_TOKEN"
    """What to set so that requests carry a token, for messages."""

    @property
    def root(self) -> str:
        """Scheme, host and port only."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def warning(self) -> str:
        """A warning if text and token are sent unencrypted over a public network, else empty."""
        if self.local or self.base.startswith("https:"):
            return ""
        return f"{self.base} is remote and not encrypted: others on the network can read what is sent."

    def url(self, path: str) -> str:
        """Return the URL of `path` below the base; a path that begins with `//` is relative to the root."""
        url = self.root + path[1:] if path.startswith("//") else self.base + path
        return f"{url}?{self.query}" if self.query else url


def endpoint(base_url: str, token: str | None, env: Mapping[str, str]) -> Endpoint:
    """Parse `base_url`. `token` is sent as a bearer token; without one, user and password of the URL are used.

    Raises BadAddress.
    """
    text = base_url.strip()
    if "://" not in text:
        is_host_local = is_local(_split("http://" + text).hostname or "")
        text = ("http://" if is_host_local else "https://") + text
    parts = _split(text)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise BadAddress(
            f"The model server's address must begin with http:// or https://, not {_without_credentials(parts)!r}."
        )
    if any(ord(letter) <= 0x20 or ord(letter) == 0x7F for letter in text):
        raise BadAddress("The model server's address contains spaces or control characters.")
    secrets = [secret for secret in (token, parts.password and unquote(parts.password)) if secret]
    authorization = _authorization(token, parts)
    if authorization and not authorization.isascii():
        raise BadAddress("The token for the model server contains characters that are not allowed in an HTTP header.")
    local = is_local(host)
    proxy, problem = (None, "") if local else _proxy_for(parts, env)
    if proxy and (password := urlsplit(proxy).password):
        secrets.append(unquote(password))
    return Endpoint(
        base=_without_credentials(parts._replace(query="", fragment="")).rstrip("/"),
        query=parts.query,
        local=local,
        authorization=authorization,
        proxy=proxy,
        problem=problem,
        ca=env.get("LLM_CA") or env.get("SSL_CERT_FILE") or env.get("SSL_CERT_DIR") or None,
        secrets=tuple(secrets),
    )


def is_local(host: str) -> bool:
    """Whether `host` is loopback, in a private network, or a name that only such a network resolves."""
    name = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return name == "localhost" or "." not in name or name.endswith(_LOCAL_SUFFIXES)
    return not address.is_global


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        why = "the port is not a number from 0 to 65535" if str(error).startswith("Port ") else str(error)
        raise BadAddress(f"The model server's address can't be read: {why}.") from None
    return parts


def _without_credentials(parts: SplitResult) -> str:
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
    """Return the proxy for this address from the environment, and why it can't be used, if so."""
    if _bypasses_proxy(parts, env.get("no_proxy") or env.get("NO_PROXY") or ""):
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


def _bypasses_proxy(parts: SplitResult, rules: str) -> bool:
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
