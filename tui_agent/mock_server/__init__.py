"""A model server for tests and demos; import `MockServer` from `tui_agent.mock_server.app`."""

from __future__ import annotations
