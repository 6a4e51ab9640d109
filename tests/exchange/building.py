"""Homes in memory with files on disk: partners that write lines, and delta, which imports them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from medusa_core.commits import Cause, Commit, Lease, LeaseKey, OutputSegment
from medusa_core.digest import Digest
from medusa_core.errors import Unavailable
from medusa_core.exchange import LineNews, import_fragment
from medusa_core.grid import Range
from medusa_core.names import Epoch, NetworkName, Participant, PlanId, StreamName, Version
from medusa_core.segments import Producer, SegmentFile, Stability
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import Assignment, Deployment, StreamRecord
from pipelines.exchange.contents import AnyContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Imported, Importer
from pipelines.homes.lease_renewer import LeaseRenewer
from tests.exchange.stored_files import StoredFiles

WIDTH_US = 10_000_000
ALPHA, BETA, DELTA = map(Participant, ("alpha", "beta", "delta"))
ONE, TWO, THREE = map(StreamName, ("one", "two", "three"))
WRITERS = {ONE: ALPHA, TWO: ALPHA, THREE: BETA}
PLAN, EPOCH, HOUR_MS = PlanId("plan"), Epoch(1), 3_600_000


def writing(stream: StreamName) -> str:
    return f"network/{stream}"


def a_home(participant: Participant, clock: ManualClock | None = None) -> MemoryCatalog:
    """A home of the federation in which delta imports everything."""
    catalog = MemoryCatalog(participant, clock or ManualClock())
    owners = {writing(s): w for s, w in WRITERS.items()}
    owners |= {import_fragment(s): DELTA for s in WRITERS}
    catalog.deploy(
        Deployment(
            network=NetworkName("network"),
            document="{}",
            plan=PLAN,
            plan_document="{}",
            streams=tuple(
                StreamRecord(name=s, kind="derived", width_us=WIDTH_US, columns={"n": "bigint"})
                for s in WRITERS
            ),
            fragments={
                **{writing(s): ((), (s,)) for s in WRITERS},
                **{import_fragment(s): ((), ()) for s in WRITERS},
            },
            assignments=tuple(
                Assignment(fragment=name, producer=Producer(who), epoch=EPOCH, plan=PLAN)
                for name, who in owners.items()
            ),
        )
    )
    return catalog


class Writer:
    """A partner at work: commits segments that name files of its storage."""

    def __init__(self, participant: Participant, storage: Path) -> None:
        self.catalog = a_home(participant)
        self.storage = storage
        self._at = dict.fromkeys(WRITERS, 0)

    def file(self, name: str, content: bytes) -> SegmentFile:
        """A file as it lies in the storage, told truly."""
        path = self.storage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest = sha256(content).hexdigest()
        return SegmentFile(path=name, size_bytes=len(content), sha256=digest, rows=1)

    def commit(self, stream: StreamName, files: Iterable[SegmentFile]) -> None:
        """One commit with a bucket for each file, behind what stands."""
        self.commit_buckets(stream, [(file,) for file in files])

    def commit_buckets(
        self, stream: StreamName, buckets: Iterable[tuple[SegmentFile, ...]]
    ) -> None:
        """One commit with so many buckets, each with its files, behind what stands."""
        key = LeaseKey(fragment=writing(stream), producer=Producer(self.catalog.participant))
        lease = self.catalog.acquire_lease(key, EPOCH, "writer", HOUR_MS)
        self.catalog.commit(
            Commit(
                lease=lease,
                plan=PLAN,
                cause=Cause.NORMAL,
                segments=tuple(self._segment(stream, files) for files in buckets),
            )
        )

    def _segment(self, stream: StreamName, files: tuple[SegmentFile, ...]) -> OutputSegment:
        at_us = self._at[stream] * WIDTH_US
        self._at[stream] += 1
        return OutputSegment(
            stream=stream,
            range=Range(at_us, at_us + WIDTH_US),
            stability=Stability.STABLE,
            buckets={at_us: Digest(1, at_us + 1, at_us + 2)},
            files=files,
        )


class Told(StoredFiles):
    """An exchange whose news comes from catalogs in memory; counts what is fetched."""

    def __init__(self, writers: Iterable[Writer]) -> None:
        self.writers = {w.catalog.participant: w for w in writers}
        super().__init__({name: w.storage for name, w in self.writers.items()})
        self.away: set[Participant] = set()
        self.asked: list[StreamName] = []
        self.fetched: list[str] = []
        self.acknowledged: dict[StreamName, int] = {}
        self.confused: dict[StreamName, StreamName] = {}

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        self.asked.append(stream)
        if producer.participant in self.away:
            raise Unavailable(f"{producer.participant} does not answer")
        stream = self.confused.get(stream, stream)
        catalog = self.writers[producer.participant].catalog
        return catalog.line_news(stream, producer, after, segments_max=segments_max)

    def fetch(self, partner: Participant, file: SegmentFile, target: Path) -> None:
        super().fetch(partner, file, target)
        self.fetched.append(file.path)

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        self.acknowledged[stream] = through_us


class CountingCopies(FileCopies):
    """The product's copies; counts how often one is looked at."""

    looks = 0

    def holds(self, file: SegmentFile) -> bool:
        self.looks += 1
        return super().holds(file)


class Reader:
    """Delta with its importer and leases."""

    def __init__(self, root: Path, exchange: Told) -> None:
        self.root = root
        self.clock = ManualClock()
        self.catalog = a_home(DELTA, self.clock)
        self.copies = CountingCopies(root)
        self.leases = leases = LeaseRenewer(self.catalog, "reader", lease_ms=HOUR_MS)
        self.take_leases()
        self.now_s = 0.0
        self.marks: dict[tuple[StreamName, int], str] | None = None
        self.importer = Importer(
            self.catalog,
            self.copies,
            exchange,
            leases,
            contents=AnyContents(),
            line_marks=lambda partner: self.marks,
            now_s=lambda: self.now_s,
        )

    def take_leases(self) -> None:
        """Take the leases of all imports."""
        self.leases.take((self._key(stream), EPOCH) for stream in WRITERS)

    @staticmethod
    def _key(stream: StreamName) -> LeaseKey:
        return LeaseKey(fragment=import_fragment(stream), producer=Producer(DELTA))

    def lease(self, stream: StreamName) -> Lease:
        return self.catalog.acquire_lease(self._key(stream), EPOCH, "reader", HOUR_MS)

    def poll(self) -> list[Imported]:
        """What one poll told."""
        told: list[Imported] = []
        self.importer.poll(told.append)
        return told

    def files(self, stream: StreamName) -> list[SegmentFile]:
        """The files of the copy's segments, in event-time order."""
        return [f for segment in self.catalog.segments(stream) for f in segment.files]
