"""Listening to a home for the requests that wait."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.notification_listener import readable
from pipelines.exchange.server import home_progress
from pipelines.exchange.server.home_progress import HomeProgress
from tests.sweeps import long_but
from tests.waiting import until


@pytest.mark.parametrize("is_there", long_but(1, [True, False], quick=True))
def test_a_listener_that_waits_ends_at_once(
    urls: HomeUrls, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setattr(home_progress, "LOOK_AGAIN_MS", 600_000)
    url = urls.exchange if is_there else "postgresql://nobody@127.0.0.1:1/nothing"
    is_waiting = threading.Event()
    progress = HomeProgress(url)

    def noted(lines: list[Any], limit_s: float) -> list[Any]:
        if limit_s:
            is_waiting.set()
        return readable(lines, limit_s)

    monkeypatch.setattr(home_progress, "readable", noted)

    def listen() -> None:
        with progress.listening():
            is_waiting.wait(60)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    thread.join(120)
    assert is_waiting.is_set()
    assert not thread.is_alive()


def test_a_connection_to_the_home_is_known_while_it_lasts(urls: HomeUrls) -> None:
    progress = HomeProgress(urls.exchange)
    with progress.listening():
        until(lambda: progress.is_connected, "it is connected")
    assert not progress.is_connected
