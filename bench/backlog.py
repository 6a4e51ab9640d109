"""`python -m bench backlog`: a watched folder full of files, and its cost once they landed.

A participant finds 3,000 files of 100 records each and lands them. Then the folder is filled
further with files that have landed (empty ones, which are listed and remembered as all others
are), and at some sizes three polls are timed: one in a folder that did not change, one in a
folder that did but has nothing to read, and one that lands a new file. The first must not grow at
all; the others list names.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import yaml

from bench.federation import shipped_federation
from bench.machine import describe_machine
from bench.processes import ContenderFailed
from bench.soak import own_folder
from medusa_core.errors import MedusaError
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assembly import (
    OwnSession,
    load_assigned_plans,
    sources_of,
    wait_for_leases,
)
from pipelines.participant.home_session import open_session
from pipelines.sources.generator import START_US
from pipelines.sources.live.arrivals import SETTLED_NS
from pipelines.sources.live.live_source import LiveSource, Polled

P, STREAM = Participant("watcher"), StreamName("connections")
RECORDS_PER_FILE = 100
TIMED_POLLS = 15
LOOK_AGAIN_S = 0.05


class Quiet:
    """Nobody is told anything but an error."""

    def error(self, error: Exception) -> None:
        raise error

    def decided(self, decision: object) -> None: ...
    def applied(self, applied: object) -> None: ...
    def transitioned(self, transition: object) -> None: ...
    def verified(self, verified: object) -> None: ...
    def imported(self, imported: object) -> None: ...
    def polled(self, stream: object, polled: object) -> None: ...
    def delivered(self, result: object) -> None: ...
    def placed(self, decision: object) -> None: ...
    def trimmed(self, line: object) -> None: ...
    def alarm(self, of: object, because: object) -> None: ...
    def headroom(self, headrooms: object) -> None: ...


def write_contracts(folder: Path, inbox: Path) -> Path:
    """One participant that watches a folder for netmon."""
    runs = {"network": "netmon", "bucket": "10s", "sources": [STREAM], "fragments": ["main"]}
    for kind, name, document in (
        ("participants", P, {"participant": P, "runs": [runs]}),
        (
            "streams",
            STREAM,
            {"stream": STREAM, "source": {"kind": "directory", "path": str(inbox)}},
        ),
    ):
        (folder / kind).mkdir(parents=True)
        text = yaml.safe_dump(json.loads(json.dumps(document)))
        (folder / kind / f"{name}.yaml").write_text(text)
    return folder


@contextmanager
def watching(folder: Path, inbox: Path) -> Iterator[LiveSource]:
    """A home whose source is polled by hand."""
    contracts = write_contracts(folder / "contracts", inbox)
    with shipped_federation(folder / "homes", contracts) as federation, ExitStack() as stack:
        settings: Settings = federation.settings
        home_session = stack.enter_context(open_session(settings, P))
        leases = stack.enter_context(LeaseRenewer(home_session.home.catalog, "bench"))
        wait_for_leases(home_session, leases, 10_000, Quiet())
        session = OwnSession(folder / "driver", stack)
        source = sources_of(home_session, load_assigned_plans(home_session), leases, session)[
            STREAM
        ]
        stack.callback(source.close)
        yield source


def put_files(inbox: Path, first: int, count: int, records: int) -> None:
    """Files of connections, moved to their place when they are whole."""
    columns = "ts_us,orig_h,resp_p"
    for number in range(first, first + count):
        at_us = START_US + number * 1_000_000
        rows = (f"{at_us + i},192.0.2.{i % 250},{i}\n" for i in range(records))
        unfinished = inbox / ".unfinished"
        unfinished.write_text("" if not records else columns + "\n" + "".join(rows))
        unfinished.rename(inbox / f"{number:09d}.csv")


def wait_until_settled(inbox: Path) -> None:
    """Until a listing of the folder counts as of one that nothing can be about to change."""
    while time.time_ns() - inbox.stat().st_mtime_ns <= SETTLED_NS:
        time.sleep(LOOK_AGAIN_S)


def poll_all(source: LiveSource) -> tuple[int, int]:
    """Poll while there is more; records landed, polls."""
    landed, polls = 0, 0
    while True:
        polled = poll(source)
        landed, polls = landed + polled.landed, polls + 1
        if polled.quarantined:
            raise ContenderFailed(f"{polled.quarantined} records are in quarantine")
        if not polled.has_more:
            return landed, polls


def poll(source: LiveSource) -> Polled:
    """One poll at this time."""
    return source.poll(time.time_ns() // 1_000_000)


def timed_ms(source: LiveSource, before: Callable[[], None]) -> float:
    """The median time of a poll, each after something else was done."""
    samples = []
    for _ in range(TIMED_POLLS):
        before()
        begun = time.perf_counter()
        poll(source)
        samples.append((time.perf_counter() - begun) * 1_000)
    return median(samples)


def measure(
    folder: Path, backlog: int, sizes: Sequence[int], say: Callable[[str], None]
) -> dict[str, object]:
    """Land the backlog, then time polls at growing sizes."""
    inbox = folder / "inbox"
    inbox.mkdir()
    put_files(inbox, 0, 1, RECORDS_PER_FILE)
    with watching(folder, inbox) as source:
        poll_all(source)  # opens Spark
        put_files(inbox, 1, backlog, RECORDS_PER_FILE)
        begun = time.perf_counter()
        landed, polls = poll_all(source)
        took_s = time.perf_counter() - begun
        if landed != backlog * RECORDS_PER_FILE:
            raise ContenderFailed(f"{landed} records landed of {backlog * RECORDS_PER_FILE}")
        say(f"{backlog:,} files, {landed:,} records: {took_s:.1f} s, {polls} polls, "
            f"{backlog / took_s:,.0f} files/s")  # fmt: skip
        rows, there = [], backlog + 1
        for size in sizes:
            put_files(inbox, there, size - there, 0)
            there = size
            poll_all(source)
            rows.append(_timed_at(inbox, source, there))
            there += TIMED_POLLS
            say("  ".join(f"{name} {value:,.1f}" for name, value in rows[-1].items()))
    return {"backlog": backlog, "seconds": took_s, "polls": polls, "polls_ms": rows}


def _timed_at(inbox: Path, source: LiveSource, there: int) -> Mapping[str, float]:
    wait_until_settled(inbox)
    poll(source)
    unchanged = timed_ms(source, lambda: None)
    changed = timed_ms(
        source, lambda: (inbox / ".touched").touch() or (inbox / ".touched").unlink()
    )
    numbers = iter(range(there, there + TIMED_POLLS))
    landing = timed_ms(source, lambda: put_files(inbox, next(numbers), 1, RECORDS_PER_FILE))
    return {"files": there, "unchanged ms": unchanged, "changed ms": changed, "a file ms": landing}


def main(arguments: Sequence[str]) -> int:
    """Parse, land, time."""
    parser = argparse.ArgumentParser(prog="bench backlog", description=__doc__)
    parser.add_argument("--files", type=int, default=3_000, help="the backlog")
    parser.add_argument("--sizes", type=int, nargs="*", default=[4_000, 30_000, 100_000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    document: dict[str, object] = {"machine": describe_machine()}
    try:
        with own_folder() as folder:
            say = lambda line: print(line, flush=True)  # noqa: E731
            document.update(measure(folder, options.files, options.sizes, say))
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 4
    document["load_after"] = list(os.getloadavg())
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0
