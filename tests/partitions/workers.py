"""Workers of one participant as processes, over a network with four partitions."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Stability
from pipelines.participant.home_session import HomeSession, open_session
from pipelines.storage.segment_rows import columns_of, read_segments
from tests.federation.processes import Installation, installation, kill

SHOP = Participant("shop")
N = 4
WIDTH_US = 10_000_000
FIRST_US = 1_700_000_000_000_000
NETWORK = """
from medusa_core.network import Aggregate, Network, Output, Partitions, Source

buys = Source(
    name="buys", columns={"at_us": "bigint", "user": "string", "eur": "bigint"}, time="at_us"
)
sums = Aggregate(
    name="sums", input="buys", size="10s", group_by=("user",),
    columns={"eur": "sum(eur)", "buys": "count(*)"},
)
network = Network(
    name="shop", sources=(buys,), boxes=(sums,), outputs=(Output(name="spent", input="sums"),),
    partitions={"main": Partitions(by=("user",), n=4)},
)
"""


@dataclass
class Buys:
    """What users buy, in files that arrive one after the other; `sums` are the expected rows."""

    folder: Path
    seed: int = 1
    files: int = 0
    at_us: int = FIRST_US
    sums: Counter[tuple[int, str]] = field(default_factory=Counter)
    random: Random = field(default_factory=lambda: Random(1))

    def arrive(self, buckets: int, records: int = 200) -> None:
        """A file with so many buckets more, of so many records each; it appears at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = ["at_us,user,eur"]
        for _ in range(buckets):
            for at in range(records):
                at_us = self.at_us + at * WIDTH_US // records
                user, eur = f"u{self.random.randrange(40)}", self.random.randrange(1, 100)
                self.sums[self.at_us, user] += eur
                lines.append(f"{at_us},{user},{eur}")
            self.at_us += WIDTH_US
        written = self.folder / f".{self.files}.csv"
        written.write_text("\n".join(lines) + "\n")
        written.rename(self.folder / f"{self.files:04}.csv")
        self.files += 1


def write_contracts(folder: Path, incoming: Path) -> Path:
    """One participant that lands and computes the network."""
    for name in ("networks", "participants", "streams"):
        (folder / name).mkdir(parents=True)
    (folder / "networks" / "shop.py").write_text(NETWORK)
    (folder / "participants" / "shop.yaml").write_text(
        "participant: shop\nruns:\n  - network: networks/shop.py\n"
        "    sources: [buys]\n    fragments: [main]\n"
    )
    (folder / "streams" / "buys.yaml").write_text(
        f"stream: buys\nsource:\n  kind: directory\n  path: '{incoming}'\n  disorder: 0s\n"
    )
    return folder


@dataclass
class Shop:
    """The participant's home, its processes by name, and what arrives."""

    installed: Installation
    buys: Buys
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, *workers: str, **environment: str) -> None:
        """Start workers; `main` is the process that lands, too."""
        for name in workers:
            more = () if name == "main" else ("--worker", name)
            process = self.installed.start(SHOP, *more, environment=environment)
            self.processes[name] = process

    def kill(self, name: str) -> None:
        """End a worker at once."""
        kill(self.processes.pop(name))

    @contextmanager
    def home(self) -> Iterator[HomeSession]:
        """The home of the participant, to be looked at."""
        with open_session(self.installed.settings, SHOP) as session:
            yield session

    def placed(self) -> dict[str, tuple[str, bool]]:
        """For each partition the worker where it is placed, and whether that has its lease."""
        with self.home() as session:
            catalog = session.home.catalog
            holders = {w.name: w.holder for w in catalog.workers() if w.is_alive}
            return {
                p.fragment: (p.worker, p.holder == holders.get(p.worker, ""))
                for p in catalog.placements()
            }

    def held_by(self) -> set[str]:
        """The workers that have all partitions, once each has the lease of what is placed there."""
        placed = self.placed()
        is_whole = len(placed) == N and all(is_held for _, is_held in placed.values())
        return {worker for worker, _ in placed.values()} if is_whole else set()

    def boundary_us(self, stream: str = "spent") -> int:
        """Up to where the output is computed."""
        with self.home() as session:
            lines = session.home.catalog.lines()
            return max((s.boundary_us for s in lines if s.stream.name == stream), default=0)

    def answers(self) -> Counter[tuple[int, str]]:
        """The rows of the output: window and user, with the sum as the count."""
        found: Counter[tuple[int, str]] = Counter()
        with self.home() as session:
            for window_us, user, eur in rows_of(session, StreamName("spent")):
                found[window_us, user] += eur
        return found

    def ranges(self) -> dict[str, list[Range]]:
        """The ranges that were committed of each fragment, in order (S12)."""
        found: dict[str, list[Range]] = {}
        with self.home() as session:
            for step in session.home.catalog.steps():
                found.setdefault(step.fragment, []).append(step.range)
        return {fragment: sorted(ranges) for fragment, ranges in found.items()}

    def commits_of(self, fragment: str) -> int:
        """How many steps of a fragment were committed."""
        return len(self.ranges().get(fragment, ()))


def rows_of(session: HomeSession, stream: StreamName) -> Iterator[tuple[Any, ...]]:
    """The stable rows of a stream: window, user and sum."""
    catalog, storage = session.home.catalog, session.home.storage
    (line,) = (line for line in catalog.lines() if line.stream.name == stream)
    segments = catalog.segments(stream, producer=line.producer)
    assert all(segment.stability is Stability.STABLE for segment in segments)
    part = Range(FIRST_US, FOREVER_US)
    for table in read_segments(storage, segments, columns_of(line.stream), part):
        for row in table.select(["window_start", "user", "eur"]).to_pylist():
            yield int(row["window_start"].timestamp()) * 1_000_000, row["user"], row["eur"]


@contextmanager
def a_shop(folder: Path) -> Iterator[Shop]:
    """A home with its contracts applied; its processes are killed at the end."""
    buys = Buys(folder / "incoming")
    buys.folder.mkdir(parents=True)
    with installation(write_contracts(folder / "contracts", buys.folder)) as installed:
        shop = Shop(installed, buys)
        try:
            yield shop
        finally:
            for name in list(shop.processes):
                shop.kill(name)
