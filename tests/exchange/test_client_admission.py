"""Unauthenticated clients take turns: a flood costs its own addresses, and a limited rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import pytest

from pipelines.exchange.server.client_admission import Admission
from pipelines.exchange.server.https_server import HttpsServer
from tests.exchange.served import connected

TOGETHER = 20


def test_a_burst_is_let_through_at_once_and_the_rest_waits() -> None:
    async def run() -> None:
        admission, entered = Admission(1, 3, now_s=lambda: 100.0), list[int]()
        for number in range(5):
            admission.enter("flood", lambda number=number: entered.append(number))  # type: ignore[misc]
        assert entered == [0, 1, 2, 3]

    asyncio.run(run())


def test_addresses_take_turns_and_all_that_wait_come_in() -> None:
    async def run() -> None:
        admission, entered = Admission(1_000, 1), list[str]()
        is_over = asyncio.Event()

        def enter(name: str) -> None:
            entered.append(name)
            if len(entered) == 42:
                is_over.set()

        for number in range(41):
            admission.enter("flood", lambda number=number: enter(f"flood {number}"))  # type: ignore[misc]
        admission.enter("honest", lambda: enter("honest"))
        before = len(entered)
        await asyncio.wait_for(is_over.wait(), 60)
        assert entered.index("honest") <= before + 1
        assert [name for name in entered if name != "honest"] == [f"flood {n}" for n in range(41)]

    asyncio.run(run())


def test_a_call_that_fails_does_not_keep_the_others_out() -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        admission, is_over = Admission(1_000, 1), asyncio.Event()

        def fails() -> None:
            raise RuntimeError

        for _ in range(2):
            admission.enter("one", lambda: None)
        admission.enter("one", fails)
        admission.enter("two", is_over.set)
        await asyncio.wait_for(is_over.wait(), 60)

    asyncio.run(run())


def test_requests_that_are_sent_together_take_a_turn_each(
    server: HttpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission, turns = server.connections.admission, list[str]()
    enter = admission.enter

    def counted(address: str, go: Callable[[], None]) -> None:
        turns.append(address)
        enter(address, go)

    monkeypatch.setattr(admission, "enter", counted)
    with closing(connected(server)) as connection:
        connection.sendall(b"GET /v1/introduction HTTP/1.1\r\nHost: a\r\n\r\n" * TOGETHER)
        received = b""
        while received.count(b"HTTP/1.1 200") < TOGETHER:
            received += connection.recv(1 << 16)
    assert len(turns) >= TOGETHER
