"""Getting and deleting models of an Ollama server (L2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tui_agent.common.domain import Fault
from tui_agent.models.decoding import as_count, as_object
from tui_agent.models.faults import WireFault, fault_from_error, fault_from_status
from tui_agent.models.framing import FrameTooLarge, InvalidJson, NdjsonLines, read_json
from tui_agent.models.wire import Wire, fault_from_exception
from tui_agent.text import clean, one_line

PULL_SILENCE = 300.0
"""Seconds without a line of progress after which a pull counts as dead; checking a large file takes a while."""

OnPull = Callable[[str, int, int | None], object]
"""Gets what the server does, bytes done, and bytes in total if they are known."""


async def pull(wire: Wire, name: str, on_progress: OnPull) -> None:
    """Let the server download a model; it keeps and continues what is incomplete. Raises WireFault."""
    client, peer = wire.client, wire.peer(name)
    import httpx

    splitter, sizes, succeeded = NdjsonLines(), _Sizes(), False
    request = client.build_request(
        "POST", wire.endpoint.url("/api/pull"), json={"model": name}, timeout=httpx.Timeout(PULL_SILENCE, connect=10.0)
    )
    try:
        response = await client.send(request, stream=True)
        try:
            if response.status_code != 200:
                body = (await response.aread())[:4096].decode("utf-8", "replace")
                raise WireFault(fault_from_status(response.status_code, body, response.headers, peer), body)
            async for chunk in response.aiter_raw():
                for frame in splitter.feed(chunk):
                    succeeded = sizes.read(frame.data, wire, name, on_progress) or succeeded
            for frame in splitter.flush():
                succeeded = sizes.read(frame.data, wire, name, on_progress) or succeeded
        finally:
            await response.aclose()
    except httpx.TimeoutException as error:
        message = f"{peer.address} reported nothing for {PULL_SILENCE:.0f} s while getting {name}."
        raise WireFault(Fault(kind="timeout", message=message, advice="Try again: it continues.")) from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise fault_from_exception(error, peer, wire.limits.connect) from error
    except FrameTooLarge as error:
        raise WireFault(Fault(kind="too_large", message=f"{peer.address} sent too much: {error}.")) from error
    if not succeeded:
        message = f"{peer.address} stopped before {name} was complete."
        raise WireFault(Fault(kind="broken", message=message, advice="Try again: it continues."))


class _Sizes:
    """Adds up the progress of the files of a model, which the server reports one by one."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, int]] = {}

    def read(self, line: str, wire: Wire, name: str, on_progress: OnPull) -> bool:
        """Report one line of progress; return whether it was the last. Raises WireFault."""
        try:
            value = as_object(read_json(line))
        except InvalidJson:
            return False
        if "error" in value:
            raise WireFault(fault_from_error(value, wire.peer(name)))
        status = one_line(clean(str(value.get("status") or "")), 80)
        if total := as_count(value.get("total")):
            self._files[str(value.get("digest"))] = as_count(value.get("completed")) or 0, total
        done = sum(completed for completed, _ in self._files.values())
        on_progress(status, done, sum(total for _, total in self._files.values()) or None)
        return status == "success"


async def delete(wire: Wire, name: str) -> None:
    """Delete a model from the server. Raises WireFault."""
    client, peer = wire.client, wire.peer(name)
    import httpx

    try:
        async with asyncio.timeout(wire.limits.side_request):
            response = await client.request("DELETE", wire.endpoint.url("/api/delete"), json={"model": name})
    except TimeoutError:
        raise WireFault(Fault(kind="timeout", message=f"{peer.address} did not answer in time.")) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise fault_from_exception(error, peer, wire.limits.connect) from error
    if response.status_code != 200:  # its answer is empty then
        body = response.text[:4096]
        raise WireFault(fault_from_status(response.status_code, body, response.headers, peer), body)
