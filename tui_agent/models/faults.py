"""Turning what goes wrong on the way to a model into a Fault: what happened, what to do, whether to try again."""

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
from tui_agent.text import clean
from tui_agent.text.patterns import Patterns

BODY_SHOWN = 2048
"""Characters of a server's own words that are shown."""

_RE = Patterns("tui_agent.models", "faults")
_OVERFLOW_CODES = ("exceed_context_size_error", "context_length_exceeded", "context_window_exceeded")
_ERROR_KEYS = ("error", "detail", "message", "errors", "msg", "title")


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a request went to, as far as messages need it."""

    provider: str
    shown: str
    model: str = ""
    secrets: tuple[str, ...] = ()
    token: bool = False
    """A token, or a user and a password, go out with each request."""


class WireFault(Exception):
    """A Fault on its way up inside the clients; it never leaves them. `body` is what the server said, if anything."""

    def __init__(self, fault: Fault, body: str = "") -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.body = body


class ServerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of an error, whatever shape it chose (C-7)."""

    text: str
    code: str = ""
    """Its `code` and `type`, joined."""
    status: int | None = None
    fields: dict[str, Any] = {}
    """All scalar values found on the way."""


def for_display(text: str, peer: Peer, limit: int = BODY_SHOWN) -> str:
    """`text` from outside, fit to be shown: clean, without secrets, short."""
    text = text[: limit * 4]
    for secret in peer.secrets:
        text = text.replace(secret, "***")
    text = clean(text).strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def with_full_stop(text: str) -> str:
    """`text` with a stop at its end, so that another sentence can follow."""
    return text if text.endswith((".", "!", "?", "…", '."', ".”", ".)")) else f"{text}."


# --- what the server says -------------------------------------------------------------------


def server_message(value: Any) -> ServerMessage:
    """Dig the message out of an error value: text, object, list, or JSON inside a text."""
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
        inner = _inner_json(value)
        if inner is None:
            yield value
        else:
            yield from _texts(inner, fields, depth + 1)
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
    for key, item in value.items():
        if key.startswith("error"):
            yield f"{key}: {item}"
            return


def _inner_json(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return read_json(text)
    except InvalidJson:
        return None


def body_message(body: str, content_type: str) -> ServerMessage:
    """What an error body says; an HTML page gives only its title."""
    start = body.lstrip()[:256].lower()
    if "html" in content_type or start.startswith(("<!doctype", "<html", "<head", "<?xml")):
        title = re.search(r"<title[^>]*>([^<]{1,200})", body, re.IGNORECASE)
        return ServerMessage(text="an HTML page" + (f" titled “{title[1].strip()}”" if title else ""))
    try:
        found = server_message(read_json(body))
    except InvalidJson:
        return ServerMessage(text=body)
    return found if found.text else ServerMessage(text=body, code=found.code, status=found.status, fields=found.fields)


# --- faults ---------------------------------------------------------------------------------


def from_status(status: int, body: str, headers: Mapping[str, str], peer: Peer) -> Fault:
    """The Fault for an answer other than 200. `body` may be cut. HTML is never quoted."""
    if 300 <= status < 400:
        to = for_display(headers.get("location", "?").partition("?")[0], peer, 200)
        return Fault(
            kind="status",
            status=status,
            message=f"{peer.shown} redirects to {to}; redirects are not followed.",
            advice="Set that address as the base URL if you trust it.",
        )
    fault = _judged(body_message(body, headers.get("content-type", "")), status, peer)
    request_id = headers.get("x-request-id") or headers.get("request-id")
    message = fault.message
    if request_id:
        message = with_full_stop(f"{message.removesuffix('.')} (request {for_display(request_id, peer, 80)})")
    return msgspec.structs.replace(fault, message=message, retry_after=retry_after(headers))


def from_stream(value: Any, peer: Peer) -> Fault:
    """The Fault for an error inside a 200 stream (O-4, C-1)."""
    found = server_message(value)
    return _judged(found, found.status, peer, inside=True)


def _judged(found: ServerMessage, status: int | None, peer: Peer, *, inside: bool = False) -> Fault:
    words = for_display(found.text, peer) or "no explanation"
    probe = f"{found.code} {found.text[:20_000]}"
    event = "reported an error in its reply" if inside else f"answered {status}"
    message = with_full_stop(f"{peer.shown} {event}{f' for {peer.model}' if peer.model else ''}: {words}")
    if any(code in probe for code in _OVERFLOW_CODES) or _RE.overflow.search(probe):
        n_ctx, n_prompt = _window(found)
        return Fault(
            kind="context_overflow",
            status=status,
            message=message,
            advice="The conversation is longer than the model's window: compact it, or raise the window.",
            n_ctx=n_ctx,
            n_prompt=n_prompt,
        )
    if _RE.model_output.search(probe):
        return Fault(kind="model_output", status=status, message=message)
    if _RE.memory.search(probe):
        return Fault(kind="status", status=status, message=message, advice="Use a smaller model or a smaller window.")
    return Fault(
        kind="too_large" if status == 413 else "status",
        status=status,
        message=message,
        advice=_advice(status, found, peer),
        retryable=status is not None and (status in (408, 429) or (status >= 500 and status not in (501, 505))),
    )


def _window(found: ServerMessage) -> tuple[int | None, int | None]:
    """The real window and the prompt's size, from fields or else from the words."""

    def number(pattern: re.Pattern[str], *names: str) -> int | None:
        for name in names:
            value = found.fields.get(name)
            if isinstance(value, int) and value > 0:
                return value
        match = pattern.search(found.text)
        digits = next((group for group in match.groups() if group), "") if match else ""
        return int(digits) if digits and len(digits) < 12 else None

    return number(_RE.window, "n_ctx"), number(_RE.prompt, "n_prompt_tokens")


def _advice(status: int | None, found: ServerMessage, peer: Peer) -> str:
    text = found.text.lower()
    if "does not support tools" in text:
        return f"{peer.model} has no native tool calls: choose another model, or a text protocol for its calls."
    if status == 404 and ("model" in text or "model_not_found" in found.code):
        return _missing_model(peer)
    if status == 401 and (url := found.fields.get("signin_url")):
        return f"Sign in with `ollama signin` or at {for_display(str(url), peer, 200)}"
    token = "The token was not accepted: correct LLM_AUTH_TOKEN, or `token_file` in the settings."
    return {
        401: token if peer.token else "The server requires a token: set LLM_AUTH_TOKEN.",
        403: "This token or account may not use the model."
        if peer.token or peer.provider == "ollama"
        else "The server does not allow this; if it requires a token, set LLM_AUTH_TOKEN.",
        404: _wrong_place(peer),
        413: "The request is too large for the server: compact the conversation.",
        429: "The server limits the request rate.",
    }.get(status or 0, "")


def _wrong_place(peer: Peer) -> str:
    if peer.provider == "ollama":
        return (
            "Check OLLAMA_HOST: it is the server's address alone, such as localhost:11434. "
            "For an OpenAI-compatible server set LLM_BASE_URL instead, with the /v1 at its end."
        )
    return "Check the base URL; for most OpenAI-compatible servers it ends in /v1."


def _missing_model(peer: Peer) -> str:
    if peer.provider == "ollama":
        return f"Get it with `ollama pull {peer.model}`, or choose another model."
    return "Choose a model that the server offers, or check the base URL."


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks to wait: a number or an HTTP date; None for none, garbage or a negative number."""
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


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what caused it, groups taken apart."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        item = waiting.pop(0)
        if item is None or id(item) in seen or len(seen) > 50:
            continue
        seen.add(id(item))
        yield item
        waiting += [item.__cause__, item.__context__]
        if isinstance(item, BaseExceptionGroup):
            waiting += item.exceptions


def unreachable(error: BaseException, peer: Peer, seconds: float) -> Fault:
    """No connection came about: refused, no such name, no route, TLS, time."""
    retryable = True
    advice = (
        "Start it with `ollama serve`, or set OLLAMA_HOST."
        if peer.provider == "ollama"
        else "Check that the server runs and that its base URL is right."
    )
    why = for_display(str(error), peer, 200) or type(error).__name__
    for cause in chain(error):
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
            why = f"no connection within {seconds:g} s"
    return Fault(
        kind="unreachable", message=f"No connection to {peer.shown}: {why}.", advice=advice, retryable=retryable
    )


def _tls(error: ssl.SSLError, peer: Peer) -> tuple[str, str, bool]:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate was not accepted ({for_display(error.verify_message, peer, 200)})"
        return why, "If it is your own, set LLM_CA to the file with its CA certificate.", False
    if "WRONG_VERSION_NUMBER" in str(error) or "UNKNOWN_PROTOCOL" in str(error):
        return "it does not speak TLS", "The server may expect http:// instead of https://.", False
    return f"TLS failed ({for_display(error.reason or str(error), peer, 200)})", "Check https:// or http://.", True


def broken(peer: Peer, *, produced: bool, why: str = "") -> Fault:
    """The stream ended without its end marker."""
    when = "in the middle of its reply" if produced else "before sending anything"
    why = why.rstrip(".")
    return Fault(
        kind="broken",
        message=f"{peer.shown} stopped {when}{f' ({why})' if why else ''}.",
        advice="The reply so far is kept; ask to continue." if produced else "",
        retryable=not produced,
    )


# --- trying again ---------------------------------------------------------------------------

FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
"""Seconds between attempts when the server does not say."""
LONGEST_ASKED = 120.0
"""Seconds that a server may ask us to wait; beyond that it is for the user to decide."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """When a request is repeated after a failure that passes by itself: visibly, bounded, never once something of it
    was answered, which is no longer `retryable` (M7)."""

    attempts: int = 5
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """Gives numbers from 0 to 1."""

    def pause(self, fault: Fault, attempt: int) -> float | None:
        """Seconds until the next attempt; None when there is none."""
        if not fault.retryable or attempt >= self.attempts:
            return None
        if fault.retry_after is not None:
            return fault.retry_after + self.chance() * 0.25 if fault.retry_after <= LONGEST_ASKED else None
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1))
        return wait * (0.5 + self.chance() / 2)

    def last(self, fault: Fault, attempts: int) -> Fault:
        """The fault that is left after so many attempts."""
        if fault.retryable and fault.retry_after is not None and fault.retry_after > LONGEST_ASKED:
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
