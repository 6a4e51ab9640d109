"""Replays for tests: a home of their own in the shared server, the run's one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.digest import Digest, sum_of
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network, inputs_of
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import Home, open_home
from pipelines.participant.kept_history import KeptHistory
from pipelines.participant.replay import ReplayResult, StartingSession, replay
from pipelines.participant.replay_order import ReplayOrder
from tests.home_pool import home_pool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOLO = Participant("solo")
SECOND_US = 1_000_000
Digests = Mapping[str, Mapping[int, Digest]]


@dataclass(frozen=True)
class Replayer:
    """Makes homes in one server and replays in one Spark session."""

    server: EmbeddedServer
    spark: SparkSession
    folder: Path

    @contextmanager
    def home(self, name: str = "home") -> Iterator[Home]:
        """A home of the test's own."""
        with (
            home_pool(self.server, self.folder / name, SOLO) as settings,
            open_home(settings, SOLO) as home,
        ):
            yield home

    def run(
        self,
        home: Home,
        network: Network,
        inputs: Mapping[str, Sequence[Path]],
        *,
        width_s: int = 10,
        limits: Limits | None = None,
        chunk_records: int = 250_000,
        export: Path | None = None,
        histories: Mapping[str, KeptHistory] | None = None,
    ) -> ReplayResult:
        """Replay files, and the kept history of other homes' streams, in the home."""
        order = ReplayOrder(
            network=network,
            inputs={StreamName(name): tuple(paths) for name, paths in inputs.items()},
            width_us=width_s * SECOND_US,
            limits=limits or Limits(),
            chunk_records=chunk_records,
            histories={StreamName(name): its for name, its in (histories or {}).items()},
        )
        return replay(order, home, export, sessions=self._session)

    @contextmanager
    def _session(self, home: Home) -> Iterator[Callable[[], SparkSession]]:
        yield lambda: self.spark


def replay_in(spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
    """Let `medusa replay`, called in this process, use the Spark session of the tests."""
    patch.setattr(StartingSession, "start", lambda *_: None)
    patch.setattr(StartingSession, "of_home", lambda *_: nullcontext(lambda: spark))


def part_of(network: Network, *outputs: str) -> Network:
    """Some outputs of a network, and the boxes and sources that they are computed from."""
    kept = tuple(network.output(name) for name in outputs)
    needed: set[str] = set()
    unread = [output.input for output in kept]
    while unread:
        owner = unread.pop().partition(".")[0]
        if owner not in needed:
            needed.add(owner)
            unread += () if network.is_source(owner) else inputs_of(network.box(owner))
    boxes = tuple(box for box in network.boxes if box.name in needed)
    sources = tuple(source for source in network.sources if source.name in needed)
    return replace(network, sources=sources, boxes=boxes, outputs=kept)


def digests(home: Home, network: Network) -> Digests:
    """Output stream -> bucket start -> digest, whatever the segments."""
    found: dict[str, dict[int, Digest]] = {}
    for output in network.outputs:
        segments = home.catalog.segments(StreamName(output.name))
        found[output.name] = {at: d for s in segments for at, d in s.buckets.items()}
    return found


def coarser(digests_: Digests, width_us: int) -> Digests:
    """The digests of the same rows in wider buckets."""
    wide: dict[str, dict[int, Digest]] = {}
    for name, buckets in digests_.items():
        wide[name] = {}
        for at, digest in buckets.items():
            start = at - at % width_us
            wide[name][start] = sum_of((wide[name].get(start, Digest()), digest))
    return wide


def parquet_files(folder: Path, table: pa.Table, cuts: Sequence[int] = ()) -> list[Path]:
    """The rows of a table in one or more files, cut at the given row numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [0, *cuts, table.num_rows]
    paths = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        path = folder / f"part{number}.parquet"
        pq.write_table(table.slice(start, end - start), path)
        paths.append(path)
    return paths
