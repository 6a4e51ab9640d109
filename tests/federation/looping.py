"""A participant's loop in a process of its own that tells what it has loaded and sent.

    python -m tests.federation.looping FOLDER PARTICIPANT SECONDS [open]

It prints a line of JSON after so many seconds and a few turns: modules of the market that are
loaded, how often each statement was sent, turns of the loop, the seconds that it took, and of CPU.
With `open` the market is open from the beginning, as if the home had a contract. A line at its
input lets it go on for the seconds that the line gives; it ends with its input. A loop that makes
no turns, as one that never waits, is ended `TURNS_S_MAX` after its seconds, and its turns tell so.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import Engine, event

from medusa_core.knowledge import Limits
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assembly import loop_of, wait_for_leases
from pipelines.participant.home_notifications import notification_listener
from pipelines.participant.home_session import open_session
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks
from pipelines.watching.watcher import watcher_of

POLL_MS = 500
TURNS_MIN = 4
"""However slow the machine is: fewer would show nothing of a loop."""
TURNS_S_MAX = 120
"""How much longer than its seconds a loop is given to make them."""


def no_session() -> NoReturn:
    raise AssertionError("there is nothing to compute")


class Sent:
    """How often this process sends each statement."""

    def __init__(self) -> None:
        self.statements: Counter[str] = Counter()
        event.listen(Engine, "before_cursor_execute", self._note)

    def _note(self, connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        text = " ".join(line for line in statement.splitlines() if not line.startswith("--"))
        self.statements[text] += 1


def main(folder: Path, name: str, seconds: float, is_open: bool) -> None:
    settings = replace(Settings.from_environment(os.environ), directory=folder)
    participant = Participant(name)
    if is_open:
        PostgresCatalog.has_contracts = lambda self: True  # type: ignore[method-assign]
    with ExitStack() as stack:
        session = stack.enter_context(open_session(settings, participant))
        output = stack.enter_context(watcher_of(settings, participant, session.home.catalog))
        leases = stack.enter_context(LeaseRenewer(session.home.catalog, "looping"))
        wait_for_leases(session, leases, 10_000, output)
        loop = loop_of(session, leases, no_session, output, stack, Limits())
        listener = notification_listener(session, FaultInjectedLinks(folder, participant))
        stack.callback(listener.close)
        while True:
            sent, ticks = Sent(), Counter[str]()
            since_s, began_s = time.monotonic(), time.process_time()

            def wait(limit_ms: int | None, turns: Counter[str] = ticks) -> None:
                turns["turns"] += 1
                listener.wait(POLL_MS if limit_ms is None else min(POLL_MS, limit_ms))

            loop.run(
                is_done=lambda ends_s=since_s + seconds, turns=ticks: (
                    time.monotonic() > ends_s
                    and (turns["turns"] >= TURNS_MIN or time.monotonic() > ends_s + TURNS_S_MAX)
                ),
                wait=wait,
                recover=lambda error: None,
            )
            said_now = {
                "modules": sorted(m for m in sys.modules if m.startswith(WING)),
                "statements": sent.statements,
                "turns": ticks["turns"],
                "seconds": time.monotonic() - since_s,
                "cpu_s": time.process_time() - began_s,
            }
            print(json.dumps(said_now), flush=True)
            line = sys.stdin.readline()
            if not line:
                return
            seconds = float(line)


WING = ("pipelines.market", "medusa_core.market")

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4:] == ["open"])
