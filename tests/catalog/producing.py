"""Several producers of `sums` and a home that reads them: real lines, told as news and brought in.

Each producer is a home of its own in memory; what it commits comes to the reading home as its
exchange would bring it. Rows of a bucket are the same with every producer unless a test says other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from medusa_core.choosing import choose
from medusa_core.commits import Cause, Commit, Lease, LeaseKey, OutputSegment
from medusa_core.digest import Digest
from medusa_core.exchange import import_fragment
from medusa_core.grid import Range
from medusa_core.imports import ChosenRows, ImportKnowledge
from medusa_core.knowledge import Limits
from medusa_core.names import Epoch, Participant, PlanId, StreamName
from medusa_core.segments import IMPORT, Producer, Read, Segment, Stability
from medusa_core.wait_budget import WaitBudget
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import Assignment, Deployment
from tests.catalog import building as a

IMPORTING = import_fragment(a.SUMS)
CHOSEN = Producer(a.ALPHA, IMPORT)
PRODUCERS = tuple(
    Producer(Participant(name), replica) for replica, name in enumerate(("beta", "gamma", "kappa"))
)
BETA, GAMMA, KAPPA = PRODUCERS
S, T, G = Stability.STABLE, Stability.TENTATIVE, Stability.GAP
LIMITS = Limits()


def replicated(producers: Sequence[Producer] = PRODUCERS[:2], plan: PlanId = a.PLAN) -> Deployment:
    """`sums` is computed by several and read here by the fragment of `big`."""
    base = a.a_deployment(plan=plan)
    return replace(
        base,
        fragments={
            a.MAIN: ((a.SRC,), (a.SUMS,)),
            a.TAIL: ((a.SUMS,), (a.BIG,)),
            IMPORTING: ((), (a.SUMS,)),
        },
        assignments=(
            *(
                Assignment(fragment=a.MAIN, producer=p, epoch=Epoch(at), plan=plan)
                for at, p in enumerate(producers, 1)
            ),
            a.an_assignment(a.TAIL, plan=plan),
            a.an_assignment(IMPORTING, producer=CHOSEN, plan=plan),
        ),
    )


@dataclass
class Partner:
    """A producer's own home."""

    producer: Producer
    deployment: Deployment
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000))
    catalog: MemoryCatalog = field(init=False)
    lease: Lease = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = MemoryCatalog(self.producer.participant, self.clock)
        self.catalog.deploy(self.deployment)
        key = LeaseKey(fragment=a.MAIN, producer=self.producer)
        (mine,) = (
            x
            for x in self.deployment.assignments
            if (x.fragment, x.producer) == (a.MAIN, self.producer)
        )
        self.lease = self.catalog.acquire_lease(key, mine.epoch, "partner", a.HOUR_MS)

    def commit(
        self,
        from_bucket: int,
        to_bucket: int,
        stability: Stability = S,
        *,
        rows: Mapping[int, int] | None = None,
        missing: Iterable[str] = (),
        ends: bool = False,
        plan: PlanId = a.PLAN,
    ) -> None:
        """A run of buckets; what is final has two rows in each, what is tentative one."""
        count = 1 if stability is T else 2
        counts = dict.fromkeys(range(from_bucket, to_bucket), count) if rows is None else rows
        missing = tuple(map(StreamName, missing)) if stability is T else ()
        segment = a_row(
            from_bucket, to_bucket, stability, {} if stability is G else counts, missing
        )
        self.catalog.commit(
            Commit(
                lease=self.lease,
                plan=plan,
                cause=Cause.NORMAL,
                segments=(segment,),
                ends=ends,
                lineage=(
                    Read(
                        output=a.SUMS,
                        input=a.SRC,
                        producer=a.ME,
                        range=segment.range,
                        version=self.catalog.lines(a.SUMS)[0].version,
                    ),
                ),
            )
        )


def a_row(
    from_bucket: int,
    to_bucket: int,
    stability: Stability,
    rows: Mapping[int, int],
    missing: tuple[StreamName, ...] = (),
) -> OutputSegment:
    return a.a_segment(from_bucket, to_bucket, stability, rows=rows, missing=missing)


class Reading:
    """The home that reads: brings partners' news in and chooses."""

    def __init__(
        self, catalog: Catalog, producers: Sequence[Producer] = PRODUCERS[:2], verify: int = 1
    ) -> None:
        deployment = replicated(producers)
        self.catalog = catalog
        catalog.deploy(deployment)
        if verify > 1:
            catalog.declare_verify(a.SUMS, verify)
        self.partners = {p: Partner(p, deployment) for p in producers if p.participant != a.ALPHA}
        key = LeaseKey(fragment=IMPORTING, producer=CHOSEN)
        self.lease = catalog.acquire_lease(key, a.FIRST, "me", a.HOUR_MS)
        self.wait_budget: WaitBudget | None = None

    def __getitem__(self, producer: Producer) -> Partner:
        return self.partners[producer]

    def hear(self, *producers: Producer, page: int = 1_000) -> None:
        """Bring in what partners have to tell (one page each)."""
        for status in self.catalog.imports():
            if producers and status.producer not in producers:
                continue
            partner = self.partners[status.producer].catalog
            news = partner.line_news(a.SUMS, status.producer, status.version, segments_max=page)
            told = replace(news, requested_at_ms=status.read_at_ms)
            self.catalog.import_line(self.lease, told, status.plan)

    def known(self) -> ImportKnowledge:
        (known,) = self.catalog.read_imports(LIMITS)
        return known

    def choose(self, now_ms: int | None = None) -> ChosenRows:
        """Choose once, and make it."""
        known = self.known()
        chosen = choose(known, self.wait_budget, known.clock_ms if now_ms is None else now_ms)
        if not chosen.is_nothing:
            self.catalog.commit_choice(self.lease, chosen)
        return chosen

    def settle(self) -> None:
        """Choose until there is nothing left to choose."""
        for _ in range(50):
            if self.choose().is_nothing:
                return
        raise AssertionError("there is always something to choose")

    def rows(self) -> list[Segment]:
        """The live rows of the import's line."""
        return list(self.catalog.segments(a.SUMS, producer=CHOSEN))

    def shown(self) -> list[str]:
        """The same, short: buckets, stability, whose, and what is missing."""
        return [self._shown(row) for row in self.rows()]

    def _shown(self, row: Segment) -> str:
        reads = self.catalog.lineage(row)
        at = Range(row.range.from_us, row.range.to_us)
        whose = {r.producer.participant for r in reads if r.range.overlaps(at)}
        parts = [
            f"{at.from_us // a.WIDTH_US}-{at.to_us // a.WIDTH_US}",
            row.stability.value,
            *sorted(whose),
            *([f"without {', '.join(row.missing)}"] if row.missing else []),
        ]
        return " ".join(parts)


def digests_of(rows: Iterable[Segment]) -> dict[int, Digest]:
    """Bucket -> digest, of all rows."""
    return {at_us: digest for row in rows for at_us, digest in row.buckets.items()}
