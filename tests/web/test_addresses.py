from __future__ import annotations

import pytest

from tui_agent.frontends.web.addresses import CannotServe, listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "", "127.0.0.1.evil", "127.1", "0"])
def test_h12_only_loopback_is_bound(host: str) -> None:
    with pytest.raises(CannotServe, match="this machine only"):
        listen(host, 0)


def test_h12_a_taken_port_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=f"Port {port} is not available.*--port"):
            listen("localhost", port)
    with pytest.raises(CannotServe, match="not a port"):
        listen("127.0.0.1", 70_000)
    with listen("::1", 0) as six:
        assert six.getsockname()[0] == "::1"
