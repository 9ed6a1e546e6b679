from __future__ import annotations

import pytest

from tui_agent.common.domain import ToolResult
from tui_agent.engine.workflow.verification import error_class


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("HTTP/1.1 404", "not_found"),
        ("The requested URL returned error: 401", "authentication"),
        ("403 Forbidden", "authentication"),
        ("status code: 429", "busy"),
        ("in /tmp/pytest-404/run it ended with 1", "other"),
        ("checked 401 lines in 503 ms", "other"),
    ],
)
def test_the_digits_of_a_status_are_one_only_where_they_are_called_so(said: str, kind: str) -> None:
    assert error_class(ToolResult(success=False, error=said)) == kind
