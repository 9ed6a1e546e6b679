from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.planted import ALL_SECRETS_TEXT, BY_VARIABLE, find_leaks, find_leaks_in
from tests.tui.kit import app_for, wait_for
from tui_agent.common import paths
from tui_agent.platform.debug_log import start_debug_log
from tui_agent.text import SecretMask
from tui_agent.tui.terminal import log_failure


@pytest.fixture
def home() -> Iterator[Path]:
    path = paths.debug_log_file()
    logger = logging.getLogger("tui_agent")
    before = logger.handlers, logger.propagate, logger.level, logging.raiseExceptions
    start_debug_log(path, SecretMask(BY_VARIABLE))
    yield path.parent
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.propagate, logger.level, logging.raiseExceptions = before


def failing() -> None:
    kept = ALL_SECRETS_TEXT  # a local variable, as any frame may have one
    raise RuntimeError(f"{kept}\x1b]52;c;aGk=\x07")


def test_what_a_failure_leaves_behind_names_no_secret(home: Path) -> None:
    try:
        failing()
    except RuntimeError as error:
        told = log_failure(error)
        logging.getLogger("tui_agent.engine").exception("it failed with %s", ALL_SECRETS_TEXT)
    assert "RuntimeError" in told and find_leaks(told) == []
    assert find_leaks_in(home) == {}
    written = paths.debug_log_file().read_text(encoding="utf-8")
    assert written.count("in failing") == 2 and "\x1b" not in written
    assert paths.debug_log_file().stat().st_mode & 0o777 == 0o600


async def test_a_failure_of_the_screen_tells_and_keeps_no_secret(home: Path) -> None:
    app, _ = app_for("empty")
    with pytest.raises(RuntimeError):  # what a test sees of it; users see the sentence
        async with app.run_test() as pilot:
            app.call_later(failing)
            await wait_for(pilot, lambda: app.failure != "")
    assert "RuntimeError" in app.failure and find_leaks(app.failure) == []
    assert find_leaks_in(home) == {}
