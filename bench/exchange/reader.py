"""Beta as a process: the importer and the listener of the loop, without Spark.

It is asked over its standard input, a JSON document in a line, and answers in lines: `news` for
each line whose news it has, with the monotonic clock's nanoseconds. `alone` looks at its own home
alone, as often as it polls otherwise: what that costs is no cost of a link.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pipelines.cli  # noqa: F401  # the thresholds of its collector, as those of `medusa run`
from bench.exchange.homes import ALPHA, BETA
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.base.files import sync_folder
from pipelines.base.garbage_collection import exempt_loaded_objects
from pipelines.base.settings import Settings
from pipelines.exchange.exchange_port import Exchange
from pipelines.exchange.importer import Imported
from pipelines.exchange.news_files import FILES_AT_ONCE
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assembly import importer_of, loop_exchange
from pipelines.participant.assigned_plans import leases_needed, newest_assignments
from pipelines.participant.home_notifications import notification_listener
from pipelines.participant.home_session import HomeSession, open_session
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks

POLL_MS = 500


def say(**document: Any) -> None:
    """Write one line."""
    print(json.dumps(document), flush=True)


class Observed:
    """An `Exchange` around the loop's: reports when the news of a line is here."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.begin = exchange.begin
        self.close = exchange.close
        self.fetch_all = exchange.fetch_all
        self.acknowledge = exchange.acknowledge

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Exchange.line_news`."""
        news = self._exchange.line_news(stream, producer, after, segments_max=segments_max)
        at_ns = time.monotonic_ns()
        if news.version > after:
            say(news=stream, version=news.version, at_ns=at_ns)
        return news


class Reader:
    """Imports while it is asked to; one thread polls, the main one takes requests."""

    def __init__(self, session: HomeSession, leases: LeaseRenewer, stack: ExitStack) -> None:
        self._session = session
        self._links = FaultInjectedLinks(session.home.directory, BETA)
        exchange = loop_exchange(session, self._links)
        stack.callback(exchange.close)
        self._importer = importer_of(session, leases, Observed(exchange), self._links)
        self._is_ended = threading.Event()
        self._is_settled = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], None]) -> None:
        """Do this in the background until the next request."""
        self.stop()
        self._is_ended.clear()
        self._thread = threading.Thread(target=work)
        self._thread.start()

    def stop(self) -> None:
        """Return when nothing is done any more."""
        self._is_ended.set()
        if self._thread is not None:
            self._thread.join()

    def imports(self) -> None:
        """Wait and poll, as the loop does."""
        listener = notification_listener(self._session, self._links)
        try:
            while not self._is_ended.is_set():
                is_watched = self._is_watched()
                while self._importer.poll(_complain):
                    self._is_settled.clear()
                    is_watched = self._is_watched()
                if is_watched:
                    self._is_settled.set()
                listener.wait(POLL_MS)
        finally:
            listener.close()

    def _is_watched(self) -> bool:
        """Whether alpha says which lines have news; before, all of them are requested in turn."""
        return self._session.exchange.line_marks(ALPHA) is not None

    def settle(self) -> None:
        """Return when nothing is left to import, and the long poll has answered."""
        self._is_settled.clear()
        self._is_settled.wait()

    def is_alone(self) -> None:
        """Look at the own home only."""
        while not self._is_ended.wait(POLL_MS / 1_000):
            self._session.home.catalog.imports()

    def fetched(self, partner: Participant, files: Sequence[Mapping[str, Any]], to: Path) -> float:
        """Seconds for copies of files in a folder, synced with their names."""
        named = [SegmentFile(**file) for file in files]
        began_s = time.monotonic()
        for first in range(0, len(named), FILES_AT_ONCE):
            targets = {f: to / Path(f.path).name for f in named[first : first + FILES_AT_ONCE]}
            self._session.exchange.fetch_all(partner, targets)
        sync_folder(to)
        return time.monotonic() - began_s


def _complain(imported: Imported) -> None:
    if imported.problem is not None:
        say(problem=imported.problem)


def main() -> None:
    """Take requests until the input ends."""
    settings = Settings.from_environment(os.environ)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(settings, BETA))
        catalog = session.home.catalog
        leases = stack.enter_context(LeaseRenewer(catalog, "bench"))
        leases.take(leases_needed(newest_assignments(catalog, BETA)))
        reader = Reader(session, leases, stack)
        stack.callback(reader.stop)
        exempt_loaded_objects()
        say(done="start")
        for line in sys.stdin:
            match json.loads(line):
                case {"do": "import"}:
                    reader.run(reader.imports)
                case {"do": "alone"}:
                    reader.run(reader.is_alone)
                case {"do": "settle"}:
                    reader.settle()
                case {"do": "stop"}:
                    reader.stop()
                case {"do": "fetch", "files": files, "to": to}:
                    reader.stop()
                    say(seconds=reader.fetched(Participant("alpha"), files, Path(to)))
            say(done=json.loads(line)["do"])


if __name__ == "__main__":
    main()
