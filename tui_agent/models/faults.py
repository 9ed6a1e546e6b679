"""Turning what goes wrong on the way to a model into a Fault: what happened, what to do, whether to try again."""

from __future__ import annotations

import email.utils
import errno
import math
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tui_agent.domain import Fault
from tui_agent.models.framing import Unreadable, read_json
from tui_agent.text import clean

BODY_SHOWN = 2048
"""Characters of a server's own words that are shown."""

_OVERFLOW_CODES = ("exceed_context_size_error", "context_length_exceeded", "context_window_exceeded")
_OVERFLOW = re.compile(
    r"longer than the context length|exceeds? the available context|maximum context length|context length of only"
    r"|prompt is too long|longer than the maximum model length|context length exceeded|context window exceeds"
    r"|exceeds? (?:the )?(?:model'?s? )?context (?:window|length|limit)|input length and .?max_tokens.? exceed",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"context size \((\d+)|context length(?: is| of)?(?: only)? (\d+)|model length of (\d+)|with (\d+) maximum context"
    r"|> (\d+)",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"request \((\d+)|requested (\d+) tokens|resulted in (\d+)|too (?:long|large): (\d+)|prompt \(length (\d+)"
    r"|contains (\d+) tokens|exceed context limit: (\d+)",
    re.IGNORECASE,
)
_MODEL_OUTPUT = re.compile(
    r"error parsing tool call|tool_use_failed|failed to parse tool call|failed to parse input at pos",
    re.IGNORECASE,
)
_MEMORY = re.compile(
    r"more system memory|out of memory|insufficient memory|unable to allocate", re.IGNORECASE
)
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


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of an error, whatever shape it chose (C-7)."""

    text: str
    code: str = ""
    """Its `code` and `type`, joined."""
    status: int | None = None
    fields: dict[str, Any] = {}
    """All scalar values found on the way."""


def tidy(text: str, peer: Peer, limit: int = BODY_SHOWN) -> str:
    """`text` from outside, fit to be shown: clean, without secrets, short."""
    text = text[: limit * 4]
    for secret in peer.secrets:
        text = text.replace(secret, "***")
    text = clean(text).strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def sentence(text: str) -> str:
    """`text` with a stop at its end, so that another sentence can follow."""
    return text if text.endswith((".", "!", "?", "…", '."', ".”", ".)")) else f"{text}."


# --- what the server says -------------------------------------------------------------------


def said(value: Any) -> Said:
    """Dig the message out of an error value: text, object, list, or JSON inside a text."""
    fields: dict[str, Any] = {}
    texts = [text for text in _texts(value, fields, 0) if text.strip()]
    code = " ".join(str(fields[key]) for key in ("code", "type") if fields.get(key) not in (None, ""))
    status = next(
        (fields[key] for key in ("status_code", "status", "code") if _is_status(fields.get(key))), None
    )
    return Said(text="; ".join(dict.fromkeys(texts)), code=code, status=status, fields=fields)


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
    except Unreadable:
        return None


def body_said(body: str, content_type: str) -> Said:
    """What an error body says; an HTML page gives only its title."""
    start = body.lstrip()[:256].lower()
    if "html" in content_type or start.startswith(("<!doctype", "<html", "<head", "<?xml")):
        title = re.search(r"<title[^>]*>([^<]{1,200})", body, re.IGNORECASE)
        return Said(text="an HTML page" + (f" titled “{title[1].strip()}”" if title else ""))
    try:
        found = said(read_json(body))
    except Unreadable:
        return Said(text=body)
    return found if found.text else Said(text=body, code=found.code, status=found.status, fields=found.fields)


# --- faults ---------------------------------------------------------------------------------


def from_status(
    status: int, body: str, headers: Mapping[str, str], peer: Peer, now: datetime | None = None
) -> Fault:
    """The Fault for an answer other than 200. `body` may be cut. HTML is never quoted (C11)."""
    if 300 <= status < 400:
        to = tidy(headers.get("location", "?").partition("?")[0], peer, 200)
        return Fault(
            kind="status",
            status=status,
            message=f"{peer.shown} redirects to {to}; redirects are not followed.",
            advice="Set that address as the base URL if you trust it.",
        )
    fault = _judged(body_said(body, headers.get("content-type", "")), status, peer)
    request_id = headers.get("x-request-id") or headers.get("request-id")
    message = fault.message
    if request_id:
        message = sentence(f"{message.removesuffix('.')} (request {tidy(request_id, peer, 80)})")
    return msgspec.structs.replace(fault, message=message, retry_after=retry_after(headers, now))


def from_stream(value: Any, peer: Peer) -> Fault:
    """The Fault for an error inside a 200 stream (O-4, C-1)."""
    found = said(value)
    return _judged(found, found.status, peer, inside=True)


def _judged(found: Said, status: int | None, peer: Peer, *, inside: bool = False) -> Fault:
    words = tidy(found.text, peer) or "no explanation"
    probe = f"{found.code} {found.text[:20_000]}"
    event = "reported an error in its reply" if inside else f"answered {status}"
    message = sentence(f"{peer.shown} {event}{f' for {peer.model}' if peer.model else ''}: {words}")
    if any(code in probe for code in _OVERFLOW_CODES) or _OVERFLOW.search(probe):
        n_ctx, n_prompt = _window(found)
        return Fault(
            kind="context_overflow",
            status=status,
            message=message,
            advice="The conversation is longer than the model's window: compact it, or raise the window.",
            n_ctx=n_ctx,
            n_prompt=n_prompt,
        )
    if _MODEL_OUTPUT.search(probe):
        return Fault(kind="model_output", status=status, message=message)
    if _MEMORY.search(probe):
        return Fault(
            kind="status", status=status, message=message, advice="Take a smaller model or a smaller window."
        )
    return Fault(
        kind="too_large" if status == 413 else "status",
        status=status,
        message=message,
        advice=_advice(status, found, peer),
        retryable=status is not None
        and (status in (408, 429) or (status >= 500 and status not in (501, 505))),
    )


def _window(found: Said) -> tuple[int | None, int | None]:
    """The real window and the prompt's size, from fields or else from the words."""

    def number(pattern: re.Pattern[str], *names: str) -> int | None:
        for name in names:
            value = found.fields.get(name)
            if isinstance(value, int) and value > 0:
                return value
        match = pattern.search(found.text)
        digits = next((group for group in match.groups() if group), "") if match else ""
        return int(digits) if digits and len(digits) < 12 else None

    return number(_WINDOW, "n_ctx"), number(_PROMPT, "n_prompt_tokens")


def _advice(status: int | None, found: Said, peer: Peer) -> str:
    text = found.text.lower()
    if "does not support tools" in text:
        return f"{peer.model} can't call tools by itself: choose another model, or a text protocol for its calls."
    if status == 404 and ("model" in text or "model_not_found" in found.code):
        return _missing_model(peer)
    if status == 401 and (url := found.fields.get("signin_url")):
        return f"Sign in with `ollama signin` or at {tidy(str(url), peer, 200)}"
    token = "The token was not accepted: correct LLM_AUTH_TOKEN, or `token_file` in the settings."
    return {
        401: token if peer.token else "The server wants a token: set LLM_AUTH_TOKEN.",
        403: "This token or account may not use the model."
        if peer.token or peer.provider == "ollama"
        else "The server does not allow this; if it wants a token, set LLM_AUTH_TOKEN.",
        404: _wrong_place(peer),
        413: "The request is too large for the server: compact the conversation.",
        429: "The server limits how often it may be asked.",
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
    """No connection came about: refused, no such name, no route, TLS, time (C01, C25)."""
    retryable = True
    advice = (
        "Start it with `ollama serve`, or set OLLAMA_HOST."
        if peer.provider == "ollama"
        else "Check that the server runs and that its base URL is right."
    )
    why = tidy(str(error), peer, 200) or type(error).__name__
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
        kind="unreachable",
        message=f"No connection to {peer.shown}: {why}.",
        advice=advice,
        retryable=retryable,
    )


def _tls(error: ssl.SSLError, peer: Peer) -> tuple[str, str, bool]:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate was not accepted ({tidy(error.verify_message, peer, 200)})"
        return why, "If it is your own, name the file with its authority in LLM_CA.", False
    if "WRONG_VERSION_NUMBER" in str(error) or "UNKNOWN_PROTOCOL" in str(error):
        return "it does not speak TLS", "The server may want http:// instead of https://.", False
    return f"TLS failed ({tidy(error.reason or str(error), peer, 200)})", "Check https:// or http://.", True


def broken(peer: Peer, *, produced: bool, why: str = "") -> Fault:
    """The stream ended without its end marker (R15.5)."""
    when = "in the middle of its reply" if produced else "before it said anything"
    why = why.rstrip(".")
    return Fault(
        kind="broken",
        message=f"{peer.shown} stopped {when}{f' ({why})' if why else ''}.",
        advice="What came is kept; ask to continue." if produced else "",
        retryable=not produced,
    )
