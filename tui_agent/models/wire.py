"""The HTTP client under the model clients: built late, bound to one origin, watched instead of timed out (M7)."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tui_agent import __version__
from tui_agent.common.domain import Fault, ToolSpec
from tui_agent.models.endpoint import Endpoint
from tui_agent.models.faults import Peer, WireFault, broken, for_display, from_status, unreachable
from tui_agent.models.framing import BODY_LIMIT, LINE_LIMIT, InvalidJson, read_json
from tui_agent.text.json_values import whole_characters

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

ANSWER_LIMIT = 16 * 1024 * 1024
"""Bytes of the largest answer to a side request, such as a list of models."""


class WireLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a server may take, in seconds, and how much it may send, in bytes (M7)."""

    connect: float = 10.0
    first_byte: float = 600.0
    """From the request sent to the first byte of the reply: loading a model and reading the prompt."""
    no_bytes: float = 120.0
    no_progress: float = 600.0
    """Without a token, a thought or a fragment of a call, whatever else is sent."""
    buffering: float = 600.0
    """Silence borne instead of `no_bytes` while a server that holds back whole calls still says it is at work."""
    ask_after: float = 2.0
    """When to ask a silent server what it does; later more and more seldom."""
    ask: float = 10.0
    """A side request as a whole."""
    tail: float = 5.0
    """From the end marker to the end of the stream."""
    line: int = LINE_LIMIT
    body: int = BODY_LIMIT


def default_limits(local: bool) -> WireLimits:
    """The limits of M7 for a server that is near, or far away."""
    return WireLimits() if local else WireLimits(first_byte=120.0, no_progress=180.0, buffering=120.0)


class Wire:
    """One server. The client is built on the first request, so that a start without one costs nothing."""

    def __init__(self, provider: str, endpoint: Endpoint, limits: WireLimits | None = None) -> None:
        self.provider = provider
        self.endpoint = endpoint
        self.limits = limits or default_limits(endpoint.local)
        self._client: httpx.AsyncClient | None = None

    def peer(self, model: str = "") -> Peer:
        """For messages about this server."""
        return Peer(
            provider=self.provider,
            shown=self.endpoint.shown,
            model=model,
            secrets=self.endpoint.secrets,
            token=self.endpoint.authorization is not None,
        )

    @property
    def client(self) -> httpx.AsyncClient:
        """The HTTP client. Raises WireFault where none can be built."""
        if self._client is None or self._client.is_closed:
            self._client = self._build()
        return self._client

    def _build(self) -> httpx.AsyncClient:
        if self.endpoint.problem:
            raise WireFault(Fault(kind="unreachable", message=self.endpoint.problem))
        _keep_out_the_command_line()
        import httpx

        headers = {"Accept-Encoding": "identity", "User-Agent": f"tui-agent/{__version__}"}
        if self.endpoint.authorization:
            headers["Authorization"] = self.endpoint.authorization
        return httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(self.limits.ask, connect=self.limits.connect),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=30),
            follow_redirects=False,
            trust_env=False,  # proxies and certificates are taken from the environment by endpoint.py
            proxy=self.endpoint.proxy,
            verify=self._certificates(),
        )

    def _certificates(self) -> ssl.SSLContext | bool:
        if self.endpoint.base.startswith("http:") and not (self.endpoint.proxy or "").startswith("https:"):
            return False  # no TLS will be spoken, and reading the authorities takes time
        if not self.endpoint.ca:
            return True
        folder = Path(self.endpoint.ca).is_dir()
        try:
            return ssl.create_default_context(
                capath=self.endpoint.ca if folder else None, cafile=None if folder else self.endpoint.ca
            )
        except OSError as error:
            why = error.strerror or "not a certificate file"
            message = f"The certificates in {self.endpoint.ca} can't be read: {why}."
            advice = "Correct LLM_CA or SSL_CERT_FILE."
            raise WireFault(Fault(kind="unreachable", message=message, advice=advice)) from error

    async def ask(self, method: str, path: str, payload: Any = None, *, within: float | None = None) -> Any:
        """The JSON answer to a side request. Raises WireFault for all that can go wrong. `within`: seconds."""
        client, peer = self.client, self.peer()
        import httpx

        body = encode_payload(payload) if payload is not None else None
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            async with (
                asyncio.timeout(within or self.limits.ask),
                client.stream(method, self.endpoint.url(path), content=body, headers=headers) as response,
            ):
                refuse_encoding(response.headers.get("content-encoding", ""), peer)
                content = bytearray()
                async for chunk in response.aiter_raw():
                    content += chunk
                    if len(content) > ANSWER_LIMIT:
                        fault = Fault(kind="too_large", message=f"{peer.shown} sent too much data for {path}.")
                        raise WireFault(fault)
        except TimeoutError:
            fault = Fault(kind="timeout", message=f"{peer.shown} did not answer {path} in time.")
            raise WireFault(fault) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise transport_fault(error, peer, self.limits.connect) from error
        text = content.decode("utf-8", errors="replace")
        if response.status_code != 200:
            raise WireFault(from_status(response.status_code, text, response.headers, peer), text)
        try:
            return read_json(text.removeprefix("\ufeff"))
        except InvalidJson:
            fault = Fault(kind="protocol", message=f"{peer.shown} answered {path} with something other than JSON.")
            raise WireFault(fault) from None

    async def aclose(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def offered_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Tools as every server takes them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def encode_payload(payload: Any) -> bytes:
    """The request body; characters that are none (lone surrogates) become U+FFFD."""
    try:
        return msgspec.json.encode(payload)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_characters(msgspec.to_builtins(payload)))


def transport_fault(error: Exception, peer: Peer, connect: float) -> WireFault:
    """What an exception of the HTTP client means. `connect`: the seconds that connecting may take."""
    import httpx

    words = for_display(str(error), peer, 200)
    if isinstance(error, WireFault):
        return error
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
        return WireFault(unreachable(error, peer, connect))
    if isinstance(error, httpx.ProtocolError) and "disconnected" not in words and "closed" not in words:
        fault = Fault(kind="protocol", message=f"{peer.shown} sent invalid HTTP: {words}.")
        return WireFault(fault)
    if isinstance(error, (httpx.TransportError, OSError)):
        return WireFault(broken(peer, produced=False, why=words or "connection reset"))
    log.error("a request to %s failed", peer.shown, exc_info=error)
    return WireFault(Fault(kind="protocol", message=f"The request to {peer.shown} failed: {words}."))


def refuse_encoding(encoding: str, peer: Peer) -> None:
    """Raise WireFault for a compressed body: we asked for none, and a small one may grow without end."""
    if encoding.strip().lower() not in ("", "identity"):
        fault = Fault(
            kind="protocol",
            message=f"{peer.shown} sent a compressed reply ({encoding[:40]!r}) that was not requested.",
            advice="A proxy in front of the server may do this: switch compression off there.",
        )
        raise WireFault(fault)


def _keep_out_the_command_line() -> None:
    """httpx imports its own command line, and Rich and Pygments with it, where click is installed. We need neither:
    importing it first with an empty one in place saves most of its import time."""
    if "httpx" in sys.modules or "httpx._main" in sys.modules:
        return
    empty = types.ModuleType("httpx._main")
    setattr(empty, "main", lambda: None)  # noqa: B010 # an assignment is refused by the checker of types
    sys.modules["httpx._main"] = empty
    try:
        import httpx  # noqa: F401 # only its import is wanted
    finally:
        sys.modules.pop("httpx._main", None)
