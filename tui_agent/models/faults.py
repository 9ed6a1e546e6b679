"""Translate errors of servers and connections into a Fault: what happened, what to do, whether to retry."""

from __future__ import annotations

import asyncio
import email.utils
import errno
import math
import random
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tui_agent.common.domain import Fault
from tui_agent.models.framing import InvalidJson, read_json
from tui_agent.text import clean, with_full_stop
from tui_agent.text.patterns import Patterns

BODY_SHOWN = 2048
"""Maximum length of a quoted server message."""

_RE = Patterns("tui_agent.models", "faults")
_OVERFLOW_CODES = ("exceed_context_size_error", "context_length_exceeded", "context_window_exceeded")
_ERROR_KEYS = ("error", "detail", "message", "errors", "msg", "title")


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The server and model of a request, as needed for messages."""

    provider: str
    address: str
    model: str = ""
    secrets: tuple[str, ...] = ()
    token: bool = False
    """Requests carry a token, or user and password."""
    token_source: str = "LLM_AUTH_TOKEN"
    """What to set so that they do."""


class WireFault(Exception):
    """A Fault raised inside the clients; it never leaves them. `body` is the server's answer, if there was one."""

    def __init__(self, fault: Fault, body: str = "") -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.body = body


class ServerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A server's error message, whatever form it had (C-7)."""

    text: str
    code: str = ""
    """Its `code` and `type`, joined by a space."""
    status: int | None = None
    fields: dict[str, Any] = {}
    """All scalar values in the answer."""


def for_display(text: str, peer: Peer, limit: int = BODY_SHOWN) -> str:
    """Return external `text` fit for display: cleaned, without secrets, shortened."""
    text = text[: limit * 4]
    for secret in peer.secrets:
        text = text.replace(secret, "***")
    text = clean(text).strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


# --- error messages of servers --------------------------------------------------------------


def server_message(value: Any) -> ServerMessage:
    """Extract the message from an error value: text, object, list, or JSON inside a text."""
    fields: dict[str, Any] = {}
    texts = [text for text in _texts(value, fields, 0) if text.strip()]
    code = " ".join(str(fields[key]) for key in ("code", "type") if fields.get(key) not in (None, ""))
    status = next((fields[key] for key in ("status_code", "status", "code") if _is_status(fields.get(key))), None)
    return ServerMessage(text="; ".join(dict.fromkeys(texts)), code=code, status=status, fields=fields)


def _is_status(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599


def _texts(value: Any, fields: dict[str, Any], depth: int) -> Iterator[str]:
    if depth > 6:
        return
    if isinstance(value, str):
        try:
            inner = read_json(value) if value.lstrip().startswith("{") else None
        except InvalidJson:
            inner = None
        yield from [value] if inner is None else _texts(inner, fields, depth + 1)
    elif isinstance(value, list):
        for item in value[:8]:
            yield from _texts(item, fields, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, (str, int, float)):
                fields.setdefault(key, item)
        yield from _object_texts(value, fields, depth)


def _object_texts(value: dict[str, Any], fields: dict[str, Any], depth: int) -> Iterator[str]:
    if isinstance(value.get("loc"), list) and isinstance(value.get("msg"), str):
        yield ".".join(str(part) for part in value["loc"]) + ": " + value["msg"]
        return
    for key in _ERROR_KEYS:
        if value.get(key) not in (None, "", [], {}):
            yield from _texts(value[key], fields, depth + 1)
            return
    yield from (f"{key}: {item}" for key, item in value.items() if key.startswith("error"))


def body_message(body: str, content_type: str) -> ServerMessage:
    """Extract the message from an error body; of an HTML page only the title."""
    start = body.lstrip()[:256].lower()
    if "html" in content_type or start.startswith(("<!doctype", "<html", "<head", "<?xml")):
        title = re.search(r"<title[^>]*>([^<]{1,200})", body, re.IGNORECASE)
        return ServerMessage(text="an HTML page" + (f" titled “{title[1].strip()}”" if title else ""))
    try:
        message = server_message(read_json(body))
    except InvalidJson:
        return ServerMessage(text=body)
    return message if message.text else msgspec.structs.replace(message, text=body)


# --- faults ---------------------------------------------------------------------------------


def fault_from_status(status: int, body: str, headers: Mapping[str, str], peer: Peer) -> Fault:
    """Return the Fault for a status other than 200. `body` may be truncated; HTML is never quoted."""
    if 300 <= status < 400:
        to = for_display(headers.get("location", "?").partition("?")[0], peer, 200)
        return Fault(
            kind="status",
            status=status,
            message=f"{peer.address} redirects to {to}; redirects are not followed.",
            advice="Set that address as the base URL if you trust it.",
        )
    fault = _classify(body_message(body, headers.get("content-type", "")), status, peer)
    request_id = headers.get("x-request-id") or headers.get("request-id")
    message = fault.message
    if request_id:
        message = with_full_stop(f"{message.removesuffix('.')} (request {for_display(request_id, peer, 80)})")
    return msgspec.structs.replace(fault, message=message, retry_after=retry_after(headers))


def fault_from_error(value: Any, peer: Peer) -> Fault:
    """Return the Fault for an error inside a 200 stream (O-4, C-1)."""
    error = server_message(value)
    return _classify(error, error.status, peer, in_stream=True)


def _classify(error: ServerMessage, status: int | None, peer: Peer, *, in_stream: bool = False) -> Fault:
    quote = for_display(error.text, peer) or "no explanation"
    if status == 400 and _RE.missing_model.search(error.text[:1_000]):
        status = 404  # llama.cpp's router
    searched = f"{error.code} {error.text[:20_000]}"
    event = "reported an error in its reply" if in_stream else f"answered {status}"
    message = with_full_stop(f"{peer.address} {event}{f' for {peer.model}' if peer.model else ''}: {quote}")
    if any(code in searched for code in _OVERFLOW_CODES) or _RE.overflow.search(searched):
        n_ctx, n_prompt = _window(error)
        return Fault(
            kind="context_overflow",
            status=status,
            message=message,
            advice="The conversation is longer than the model's window: compact it, or raise the window.",
            n_ctx=n_ctx,
            n_prompt=n_prompt,
        )
    if _RE.model_output.search(searched):
        return Fault(kind="model_output", status=status, message=message)
    if _RE.memory.search(searched):
        return Fault(kind="status", status=status, message=message, advice="Use a smaller model or a smaller window.")
    return Fault(
        kind="too_large" if status == 413 else "status",
        status=status,
        message=message,
        advice=_advice(status, error, peer),
        retryable=status is not None and (status in (408, 429) or (status >= 500 and status not in (501, 505))),
    )


def _window(error: ServerMessage) -> tuple[int | None, int | None]:
    """Return the real window and the prompt size, from fields or from the text."""

    def number(pattern: re.Pattern[str], *names: str) -> int | None:
        for name in names:
            value = error.fields.get(name)
            if isinstance(value, int) and value > 0:
                return value
        match = pattern.search(error.text)
        digits = next((group for group in match.groups() if group), "") if match else ""
        return int(digits) if digits and len(digits) < 12 else None

    return number(_RE.window, "n_ctx"), number(_RE.prompt, "n_prompt_tokens")


def _advice(status: int | None, error: ServerMessage, peer: Peer) -> str:
    text = error.text.lower()
    if "does not support tools" in text:
        return f"{peer.model} has no native tool calls: choose another model, or a text protocol for its calls."
    if status == 404 and ("model" in text or "model_not_found" in error.code):
        return _model_advice(peer)
    if status == 401 and (url := error.fields.get("signin_url")):
        return f"Sign in with `ollama signin` or at {for_display(str(url), peer, 200)}"
    token = f"The token was not accepted: correct {peer.token_source}, or `token_file` in the settings."
    return {
        401: token if peer.token else f"The server requires a token: set {peer.token_source}.",
        403: "This token or account may not use the model."
        if peer.token or peer.provider == "ollama"
        else f"The server does not allow this; if it requires a token, set {peer.token_source}.",
        404: _address_advice(peer),
        413: "The request is too large for the server: compact the conversation.",
        429: "The server limits the request rate.",
    }.get(status or 0, "")


def _address_advice(peer: Peer) -> str:
    if peer.provider == "ollama":
        return (
            "Check OLLAMA_HOST: it is the server's address alone, such as localhost:11434. "
            "For an OpenAI-compatible server set LLM_BASE_URL instead, with the /v1 at its end."
        )
    return "Check the base URL; for most OpenAI-compatible servers it ends in /v1."


def _model_advice(peer: Peer) -> str:
    if peer.provider == "ollama":
        return f"Get it with `ollama pull {peer.model}`, or choose another model."
    return "Choose a model that the server offers, or check the base URL."


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds of a Retry-After header, given as a number or an HTTP date; None if missing or invalid."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(value)
        except (TypeError, ValueError, IndexError, OverflowError):
            return None
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


# --- exceptions of the network --------------------------------------------------------------


def exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, including the members of groups."""
    visited: set[int] = set()
    pending = [error]
    while pending:
        item = pending.pop(0)
        if item is None or id(item) in visited or len(visited) > 50:
            continue
        visited.add(id(item))
        yield item
        pending += [item.__cause__, item.__context__]
        if isinstance(item, BaseExceptionGroup):
            pending += item.exceptions


def unreachable_fault(error: BaseException, peer: Peer, timeout: float) -> Fault:
    """Return the Fault for a failed connection: refused, unknown host, no route, TLS, timeout."""
    retryable = True
    advice = (
        "Start it with `ollama serve`, or set OLLAMA_HOST. `tui-agent models get` gets a model that needs no server."
        if peer.provider == "ollama"
        else "Check that the server runs and that its base URL is right."
    )
    why = for_display(str(error), peer, 200) or type(error).__name__
    for cause in exception_chain(error):
        if isinstance(cause, ssl.SSLError):
            why, advice, retryable = _tls(cause, peer)
            break
        if isinstance(cause, socket.gaierror):
            why = "its host name can't be found"
            break
        if isinstance(cause, OSError) and cause.errno:
            why = {errno.ECONNREFUSED: "connection refused"}.get(cause.errno, cause.strerror or why)
            break
        if type(cause).__name__ == "ConnectTimeout":
            why = f"no connection within {timeout:g} s"
    return Fault(
        kind="unreachable", message=f"No connection to {peer.address}: {why}.", advice=advice, retryable=retryable
    )


def _tls(error: ssl.SSLError, peer: Peer) -> tuple[str, str, bool]:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate was not accepted ({for_display(error.verify_message, peer, 200)})"
        return why, "If it is your own, set LLM_CA to the file with its CA certificate.", False
    if "WRONG_VERSION_NUMBER" in str(error) or "UNKNOWN_PROTOCOL" in str(error):
        return "it does not speak TLS", "The server may expect http:// instead of https://.", False
    return f"TLS failed ({for_display(error.reason or str(error), peer, 200)})", "Check https:// or http://.", True


def broken_stream(peer: Peer, *, has_output: bool, why: str = "") -> Fault:
    """Return the Fault for a stream that ended without its end marker."""
    when = "in the middle of its reply" if has_output else "before sending anything"
    why = why.rstrip(".")
    return Fault(
        kind="broken",
        message=f"{peer.address} stopped {when}{f' ({why})' if why else ''}.",
        advice="The reply so far is kept; ask to continue." if has_output else "",
        retryable=not has_output,
    )


# --- retries ---------------------------------------------------------------------------

FIRST_DELAY = 1.0
MAX_DELAY = 30.0
"""Seconds between attempts if the server doesn't specify them."""
MAX_RETRY_AFTER = 120.0
"""Maximum Retry-After, in seconds; beyond it the user decides."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When to repeat a failed request: only if the fault is retryable, which it no longer is after any output (M7)."""

    attempts: int = 5
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    """Returns random numbers from 0 to 1."""

    def delay(self, fault: Fault, attempt: int) -> float | None:
        """Return the seconds until the next attempt, or None to give up."""
        if not fault.retryable or attempt >= self.attempts:
            return None
        if fault.retry_after is not None:
            return fault.retry_after + self.jitter() * 0.25 if fault.retry_after <= MAX_RETRY_AFTER else None
        backoff = min(MAX_DELAY, FIRST_DELAY * 2.0 ** (attempt - 1))
        return backoff * (0.5 + self.jitter() / 2)

    def final_fault(self, fault: Fault, attempts: int) -> Fault:
        """Return the fault to report after the last attempt."""
        if fault.retryable and fault.retry_after is not None and fault.retry_after > MAX_RETRY_AFTER:
            advice = f"The server asks to wait {_duration(fault.retry_after)}: try again then, or choose another model."
            return msgspec.structs.replace(fault, advice=advice)
        if attempts > 1:
            message = f"{fault.message.removesuffix('.')} (after {attempts} attempts)."
            return msgspec.structs.replace(fault, message=message)
        return fault


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"
