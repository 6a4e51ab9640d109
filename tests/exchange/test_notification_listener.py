"""Notifications: none is missed, and a time limit covers those that do not arrive."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg2
from sqlalchemy import text

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.exchange.notification_listener import (
    CHANNEL,
    TRY_AGAIN_S,
    ListenerConnection,
    ListenerIO,
    NotificationListener,
)
from tests.catalog.homes_under_test import watcher_of
from tests.waiting import until


@dataclass(eq=False)
class SimulatedConnection:
    """A line to a home, by hand."""

    notifies: list[Any] = field(default_factory=list)
    is_dead: bool = False
    is_closed: bool = False

    def poll(self) -> None:
        if self.is_dead:
            raise psycopg2.OperationalError("the server closed the connection")

    def close(self) -> None:
        self.is_closed = True


@dataclass
class World:
    """Homes by URL, those that are away, and a clock that moves while the listener waits."""

    lines: dict[str, SimulatedConnection] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    now_s: float = 0.0
    tries: int = 0

    def listen(self, url: str) -> ListenerConnection:
        self.tries += 1
        if url in self.away:
            raise psycopg2.OperationalError("no answer")
        self.lines[url] = SimulatedConnection()
        return self.lines[url]

    def wait(self, lines: list[ListenerConnection], limit_s: float) -> list[ListenerConnection]:
        ready = [
            x for x in lines if isinstance(x, SimulatedConnection) and (x.notifies or x.is_dead)
        ]
        if not ready:
            self.now_s += limit_s
        return ready

    def sleep(self, limit_s: float) -> None:
        self.now_s += limit_s

    def listener(self, *urls: str) -> NotificationListener:
        listener_io = ListenerIO(
            listen=self.listen, wait=self.wait, now_s=lambda: self.now_s, sleep=self.sleep
        )
        return NotificationListener(urls, listener_io)


def test_without_a_notification_it_returns_after_the_limit() -> None:
    world = World()
    world.listener("home", "partner").wait(500)
    assert world.now_s == 0.5


def test_a_notification_sent_while_no_call_waited_is_received_at_once_and_once() -> None:
    world = World()
    listener = world.listener("home", "partner")
    listener.wait(500)
    world.lines["partner"].notifies += ["first", "second"]
    listener.wait(500)
    assert world.now_s == 0.5
    listener.wait(500)
    assert world.now_s == 1.0


def test_what_happened_before_a_line_was_made_is_not_known() -> None:
    world = World(away={"partner"})
    listener = world.listener("home", "partner")
    assert listener.wait(500), "the line to the home was made"
    assert not listener.wait(500)
    world.away.clear()
    world.now_s = TRY_AGAIN_S
    assert listener.wait(500), "the partner's was made"
    assert not listener.wait(500)
    world.lines["home"].is_dead = True
    assert listener.wait(500)
    assert listener.wait(500), "the home's was made again"
    assert not listener.wait(500)
    world.away.add("home")
    world.lines["home"].is_dead = True
    assert listener.wait(500)
    assert not listener.wait(500), "none was made"


def test_a_line_that_died_ends_the_wait_and_is_made_again_later() -> None:
    world = World()
    listener = world.listener("home")
    listener.wait(500)
    dead = world.lines["home"]
    dead.is_dead = True
    listener.wait(500)
    assert dead.is_closed
    assert world.now_s == 0.5
    listener.wait(500)
    assert world.lines["home"] is not dead


def test_a_home_that_is_away_is_tried_now_and_then_and_the_limit_stands_in() -> None:
    world = World(away={"home"})
    listener = world.listener("home")
    for _ in range(10):
        listener.wait(500)
    assert (world.tries, world.now_s) == (1, 5.0)
    world.away.clear()
    while world.now_s < TRY_AGAIN_S + 1:
        listener.wait(500)
    assert world.tries == 2


def test_a_closed_listener_receives_nothing_and_closes_all_connections() -> None:
    world = World()
    listener = world.listener("home", "partner")
    listener.wait(500)
    listener.close()
    assert all(line.is_closed for line in world.lines.values())


def test_a_listener_works_with_a_thousand_open_files(
    postgres_server: EmbeddedServer,
) -> None:
    url = postgres_server.superuser_url()
    with ExitStack() as stack:
        for _ in range(1_100):
            handle = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, handle)
        listener = NotificationListener([url])
        stack.callback(listener.close)

        def is_listening() -> bool:
            listener.wait(1)
            return bool(listener._heard)

        until(is_listening, "it has connected", seconds_max=60)  # it tries again after ten
        with watcher_of(url) as watcher, watcher.connect() as connection:
            connection.execute(text(f"NOTIFY {CHANNEL}"))
        began_s = time.monotonic()
        listener.wait(60_000)
        assert time.monotonic() - began_s < 30
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        with watcher_of(url) as watcher, watcher.connect() as connection:
            connection.execute(text(f"{end} WHERE application_name = 'medusa listener'"))
        listener.wait(60_000)
        assert time.monotonic() - began_s < 30, "a line that died ends the wait"
