"""Listening to a home for the requests that wait."""

from __future__ import annotations

import threading

import pytest

from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.server import home_progress
from pipelines.exchange.server.home_progress import HomeProgress


@pytest.mark.parametrize("is_there", [True, False])
def test_listening_ends_when_it_is_to_end_and_not_a_wait_later(
    urls: HomeUrls, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setattr(home_progress, "LOOK_AGAIN_MS", 600_000)
    url = urls.exchange if is_there else "postgresql://nobody@127.0.0.1:1/nothing"
    is_waiting = threading.Event()
    progress = HomeProgress(url)
    owner, name = (home_progress, "readable") if is_there else (progress._ends, "wait")
    wait = getattr(owner, name)

    def noted(*words: object) -> object:
        is_waiting.set()
        return wait(*words)

    monkeypatch.setattr(owner, name, noted)

    def listen() -> None:
        with progress.listening():
            is_waiting.wait(60)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    thread.join(120)
    assert is_waiting.is_set()
    assert not thread.is_alive()
