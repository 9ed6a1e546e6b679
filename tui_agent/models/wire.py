"""The HTTP client of the model clients: created late, bound to one origin, with watchdogs instead of timeouts (M7)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tui_agent import __version__
from tui_agent.common.domain import Fault, ToolSpec
from tui_agent.models.endpoint import Endpoint
from tui_agent.models.faults import Peer, WireFault, broken_stream, fault_from_status, for_display, unreachable_fault
from tui_agent.models.framing import BODY_LIMIT, LINE_LIMIT, InvalidJson, read_json
from tui_agent.platform.lean_imports import import_without
from tui_agent.text.json_values import repair_surrogates

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

ANSWER_LIMIT = 16 * 1024 * 1024
"""Maximum size of the answer to a side request, such as a list of models, in bytes."""


class WireLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a server may take, in seconds, and how much it may send, in bytes (M7)."""

    connect: float = 10.0
    first_byte: float = 600.0
    """From sending the request to the first byte of the reply: loading the model and reading the prompt."""
    no_bytes: float = 120.0
    no_progress: float = 600.0
    """Without new text, reasoning or call fragments, whatever else arrives."""
    buffering: float = 600.0
    """Replaces `no_bytes` while a server that holds back whole calls reports that it is working."""
    probe_after: float = 2.0
    """When to first ask a silent server what it is doing; later at growing intervals."""
    side_request: float = 10.0
    """Total time of a side request."""
    tail: float = 5.0
    """From the end marker to the end of the stream."""
    line: int = LINE_LIMIT
    body: int = BODY_LIMIT


def default_limits(local: bool) -> WireLimits:
    """Return the limits of M7 for a local or a remote server."""
    return WireLimits() if local else WireLimits(first_byte=120.0, no_progress=180.0, buffering=120.0)


class Wire:
    """The connection to one server. The HTTP client is created on the first request, to keep the program's start
    fast."""

    def __init__(self, provider: str, endpoint: Endpoint, limits: WireLimits | None = None) -> None:
        self.provider = provider
        self.endpoint = endpoint
        self.limits = limits or default_limits(endpoint.local)
        self._client: httpx.AsyncClient | None = None

    def peer(self, model: str = "") -> Peer:
        """Return the server and model, for messages."""
        return Peer(
            provider=self.provider,
            address=self.endpoint.base,
            model=model,
            secrets=self.endpoint.secrets,
            token=self.endpoint.authorization is not None,
            token_source=self.endpoint.token_source,
        )

    @property
    def client(self) -> httpx.AsyncClient:
        """The HTTP client. Raises WireFault if none can be created."""
        if self._client is None or self._client.is_closed:
            self._client = self._build()
        return self._client

    def _build(self) -> httpx.AsyncClient:
        if self.endpoint.problem:
            raise WireFault(Fault(kind="unreachable", message=self.endpoint.problem))
        import_without("httpx", "_main", "main")  # its command line, which imports Rich and Pygments
        import httpx

        headers = {"Accept-Encoding": "identity", "User-Agent": f"tui-agent/{__version__}"}
        if self.endpoint.authorization:
            headers["Authorization"] = self.endpoint.authorization
        return httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(self.limits.side_request, connect=self.limits.connect),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=30),
            follow_redirects=False,
            trust_env=False,  # endpoint.py reads proxies and certificates from the environment
            proxy=self.endpoint.proxy,
            verify=self._certificates(),
        )

    def _certificates(self) -> ssl.SSLContext | bool:
        if self.endpoint.base.startswith("http:") and not (self.endpoint.proxy or "").startswith("https:"):
            return False  # no TLS is used, and loading the certificate store takes time
        if not self.endpoint.ca:
            return True
        is_folder = Path(self.endpoint.ca).is_dir()
        try:
            return ssl.create_default_context(
                capath=self.endpoint.ca if is_folder else None, cafile=None if is_folder else self.endpoint.ca
            )
        except OSError as error:
            why = error.strerror or "not a certificate file"
            message = f"The certificates in {self.endpoint.ca} can't be read: {why}."
            advice = "Correct LLM_CA or SSL_CERT_FILE."
            raise WireFault(Fault(kind="unreachable", message=message, advice=advice)) from error

    async def fetch_json(
        self, method: str, path: str, payload: Any = None, *, timeout: float | None = None, optional: bool = False
    ) -> Any:
        """Send a side request and return the JSON answer; `timeout` is in seconds.

        Raises WireFault for every failure, except that an `optional` path that the server does not have gives None.
        """
        client, peer = self.client, self.peer()
        import httpx

        body = encode_payload(payload) if payload is not None else None
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            async with (
                asyncio.timeout(timeout or self.limits.side_request),
                client.stream(method, self.endpoint.url(path), content=body, headers=headers) as response,
            ):
                reject_encoding(response.headers.get("content-encoding", ""), peer)
                content = bytearray()
                async for chunk in response.aiter_raw():
                    content += chunk
                    if len(content) > ANSWER_LIMIT:
                        fault = Fault(kind="too_large", message=f"{peer.address} sent too much data for {path}.")
                        raise WireFault(fault)
        except TimeoutError:
            fault = Fault(kind="timeout", message=f"{peer.address} did not answer {path} in time.")
            raise WireFault(fault) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise fault_from_exception(error, peer, self.limits.connect) from error
        if optional and response.status_code == HTTPStatus.NOT_FOUND:
            return None
        text = content.decode("utf-8", errors="replace")
        if response.status_code != 200:
            raise WireFault(fault_from_status(response.status_code, text, response.headers, peer), text)
        try:
            return read_json(text.removeprefix("\ufeff"))
        except InvalidJson:
            fault = Fault(kind="protocol", message=f"{peer.address} answered {path} with something other than JSON.")
            raise WireFault(fault) from None

    async def aclose(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def render_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Render tools in the form that all servers accept."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def encode_payload(payload: Any) -> bytes:
    """Encode the request body; lone surrogates become U+FFFD."""
    try:
        return msgspec.json.encode(payload)
    except UnicodeEncodeError:
        return msgspec.json.encode(repair_surrogates(msgspec.to_builtins(payload)))


def fault_from_exception(error: Exception, peer: Peer, connect_timeout: float) -> WireFault:
    """Translate an exception of the HTTP client. `connect_timeout` is in seconds."""
    import httpx

    text = for_display(str(error), peer, 200)
    if isinstance(error, WireFault):
        return error
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
        return WireFault(unreachable_fault(error, peer, connect_timeout))
    if isinstance(error, httpx.ProtocolError) and "disconnected" not in text and "closed" not in text:
        fault = Fault(kind="protocol", message=f"{peer.address} sent invalid HTTP: {text}.")
        return WireFault(fault)
    if isinstance(error, (httpx.TransportError, OSError)):
        return WireFault(broken_stream(peer, has_output=False, why=text or "connection reset"))
    log.error("a request to %s failed", peer.address, exc_info=error)
    return WireFault(Fault(kind="protocol", message=f"The request to {peer.address} failed: {text}."))


def reject_encoding(encoding: str, peer: Peer) -> None:
    """Raise WireFault for a compressed body: none was requested, and a small one may expand without limit."""
    if encoding.strip().lower() not in ("", "identity"):
        fault = Fault(
            kind="protocol",
            message=f"{peer.address} sent a compressed reply ({encoding[:40]!r}) that was not requested.",
            advice="A proxy in front of the server may do this: switch compression off there.",
        )
        raise WireFault(fault)
