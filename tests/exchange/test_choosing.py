"""The loop over several producers of one stream: what is the matter with one holds up no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from medusa_core.commits import Commit, LeaseKey
from medusa_core.errors import Diverged, OutcomeUnknown, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.recalls import RecallRequest
from medusa_core.segments import Producer, Stability
from medusa_core.wait_budget import WaitBudget
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.chooser import Chooser
from pipelines.exchange.contents import AnyContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Imported, Importer
from pipelines.homes.lease_renewer import LeaseRenewer
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of, wipe
from tests.catalog.producing import BETA, CHOSEN, GAMMA, IMPORTING, Partner, replicated
from tests.exchange.stored_files import StoredFiles
from tests.home_pool import lent_homes


@pytest.fixture(scope="module")
def urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    with lent_homes(postgres_server, a.ALPHA) as homes:
        yield homes[a.ALPHA]


class Told(StoredFiles):
    """An exchange whose news comes from catalogs in memory."""

    def __init__(self, partners: dict[Participant, Partner], root: Path) -> None:
        super().__init__({name: root / name for name in partners})
        self.homes = partners
        self.away: set[Participant] = set()

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        if producer.participant in self.away:
            raise Unavailable(f"{producer.participant} does not answer")
        home = self.homes[producer.participant].catalog
        return home.line_news(stream, producer, after, segments_max=segments_max)

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        home = self.homes[partner].catalog
        home.acknowledge(
            stream, a.ALPHA, through_us, limit_ms, path_ms, replica=replica, version=version
        )


@dataclass
class Loop:
    """The reading home's part of the loop: import, then choose."""

    catalog: Catalog
    exchange: Told
    root: Path

    def __post_init__(self) -> None:
        self.problems: list[str] = []
        self.errors: list[Exception] = []
        self.leases = LeaseRenewer(self.catalog, "me", lease_ms=a.HOUR_MS)
        key = LeaseKey(fragment=IMPORTING, producer=CHOSEN)
        self.leases.take([(key, a.FIRST)])
        copies = FileCopies(self.root / "alpha")
        self.importer = Importer(
            self.catalog, copies, self.exchange, self.leases, contents=AnyContents()
        )
        self.chooser = Chooser(self.catalog, self.leases, self.errors.append)

    def tick(self) -> int:
        self.importer.poll(self._imported)
        return self.chooser.tick()

    def _imported(self, imported: Imported) -> None:
        if imported.problem is not None:
            self.problems.append(f"{imported.producer}: {imported.problem}")

    def commit(self, producer: Producer, bucket: int, content: bytes = b"rows") -> Path:
        """A final bucket of a producer, with a file of its storage."""
        partner = self.exchange.homes[producer.participant]
        path = self.root / producer.participant / f"{bucket}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        file = replace(a.a_file(2, path.name, sha256(content).hexdigest()), size_bytes=len(content))
        segment = a.a_segment(bucket, bucket + 1, rows={bucket: 2}, file=file)
        partner.catalog.commit(a.a_commit(segment, lease=partner.lease))
        return path

    def shown(self) -> list[tuple[int, Stability, Participant]]:
        """Bucket, stability and whose it is, of what is read."""
        return [
            (row.range.from_us // a.WIDTH_US, row.stability, read.producer.participant)
            for row in self.catalog.segments(a.SUMS, producer=CHOSEN)
            for read in self.catalog.lineage(row)
            if read.range == row.range
        ]


@pytest.fixture
def loop(postgres_server: EmbeddedServer, urls: HomeUrls, tmp_path: Path) -> Iterator[Loop]:
    with ExitStack() as stack:
        watcher = stack.enter_context(watcher_of(postgres_server.superuser_url(urls.database)))
        wipe(watcher)
        catalog = PostgresCatalog(urls.job, a.ALPHA)
        stack.callback(catalog.close)
        catalog.deploy(replicated())
        partners = {p.participant: Partner(p, replicated()) for p in (BETA, GAMMA)}
        yield Loop(catalog, Told(partners, tmp_path), tmp_path)


def test_a_damaged_file_of_one_producer_does_not_hold_up_the_other(loop: Loop) -> None:
    loop.commit(BETA, 0).write_bytes(b"rots")
    loop.commit(GAMMA, 0)
    assert loop.tick() == 1
    assert loop.shown() == [(0, Stability.STABLE, GAMMA.participant)]
    assert any("is damaged" in output for output in loop.problems)
    (row,) = loop.catalog.segments(a.SUMS, producer=CHOSEN)
    assert (loop.root / "alpha" / row.files[0].path).read_bytes() == b"rows"


def test_a_producer_that_is_away_is_passed_by_and_caught_up_with(loop: Loop) -> None:
    loop.commit(BETA, 0)
    loop.commit(GAMMA, 0)
    loop.tick()
    loop.exchange.away.add(BETA.participant)
    for bucket in (1, 2):
        loop.commit(GAMMA, bucket)
        assert loop.tick() == 1
    for bucket in (1, 2, 3):
        loop.commit(BETA, bucket)
    loop.exchange.away.clear()
    loop.exchange.away.add(GAMMA.participant)
    assert loop.tick() == 1
    assert [whose for _, _, whose in loop.shown()] == ["beta", "gamma", "gamma", "beta"]
    assert {stability for _, stability, _ in loop.shown()} == {Stability.STABLE}
    loop.exchange.away.clear()
    loop.commit(GAMMA, 3)
    assert loop.tick() == 0, "nothing twice"
    assert loop.tick() == 0, "what came has been compared with the others: now it is safe"
    holds = {h.from_us for h in loop.exchange.homes[GAMMA.participant].catalog.holds(a.SUMS)}
    assert holds == {4 * a.WIDTH_US}, "every producer is acknowledged what came of it"


@pytest.mark.long(quick=True)
def test_once_a_recall_is_followed_only_what_was_read_again_is_called_safe(
    loop: Loop, urls: HomeUrls
) -> None:
    for bucket in range(4):
        loop.commit(BETA, bucket)
    loop.tick()
    loop.tick()
    beta = loop.exchange.homes[BETA.participant].catalog
    assert {h.from_us for h in beta.holds(a.SUMS)} == {4 * a.WIDTH_US}
    expected = RecallRequest(
        stream=a.SUMS, producer=BETA, from_us=a.WIDTH_US, because="half a file", who="ada"
    )
    beta.recall(expected)
    for bucket in range(1, 4):
        loop.commit(BETA, bucket)
    owner = PostgresCatalog(urls.owner, a.ALPHA)
    owner.recall(replace(expected, follows=2))
    owner.close()
    copies = FileCopies(loop.root / "alpha")
    loop.importer = Importer(
        loop.catalog, copies, loop.exchange, loop.leases, contents=AnyContents(), segments_max=1
    )
    loop.tick()
    assert {h.from_us for h in beta.holds(a.SUMS)} == {2 * a.WIDTH_US}
    for _ in range(3):
        loop.tick()
    assert {h.from_us for h in beta.holds(a.SUMS)} == {4 * a.WIDTH_US}


def test_a_loop_that_dies_after_a_choice_whose_answer_was_lost_makes_it_once(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.commit(BETA, 0)
    made = loop.catalog.commit_choice

    def lost(*given: object) -> None:
        made(*given)  # type: ignore[arg-type]
        raise OutcomeUnknown("the answer was lost")

    monkeypatch.setattr(loop.catalog, "commit_choice", lost)
    with pytest.raises(OutcomeUnknown):
        loop.tick()
    monkeypatch.undo()
    again = Loop(loop.catalog, loop.exchange, loop.root)
    assert again.tick() == 0
    assert again.shown() == [(0, Stability.STABLE, BETA.participant)]


def test_a_divergence_is_reported_once_in_a_sentence_that_names_both_producers(loop: Loop) -> None:
    loop.commit(BETA, 0)
    partner = loop.exchange.homes[GAMMA.participant]
    (loop.root / "gamma").mkdir()
    (loop.root / "gamma" / "other.parquet").write_bytes(b"more")
    file = replace(a.a_file(3, "other.parquet", sha256(b"more").hexdigest()), size_bytes=4)
    other: Commit = a.a_commit(a.a_segment(0, 1, rows={0: 3}, file=file), lease=partner.lease)
    partner.catalog.commit(other)
    loop.tick()
    loop.tick()
    (error,) = loop.errors
    assert isinstance(error, Diverged)
    assert "sums by beta/0 and by gamma/1 differ in the bucket at 1970-01-01" in str(error)
    assert [stability for _, stability, _ in loop.shown()] == [Stability.TENTATIVE]


@pytest.mark.long(quick=True)
def test_the_loop_wakes_up_when_what_is_not_verified_is_due(loop: Loop) -> None:
    loop.catalog.declare_verify(a.SUMS, 2)
    loop.chooser.set_wait_budgets({a.SUMS: WaitBudget(a.HOUR_MS)})
    loop.commit(BETA, 0)
    before_ms = loop.catalog.read_clock_ms()
    assert loop.tick() == 0
    took_ms = loop.catalog.read_clock_ms() - before_ms
    assert loop.chooser.wakes_in_ms is not None
    assert a.HOUR_MS - took_ms <= loop.chooser.wakes_in_ms <= a.HOUR_MS
    loop.commit(GAMMA, 0)
    assert loop.tick() == 1
    assert loop.chooser.wakes_in_ms is None


def test_a_home_without_several_producers_has_nothing_to_choose() -> None:
    catalog = MemoryCatalog(a.ALPHA, ManualClock(1))
    catalog.deploy(a.a_deployment())
    chooser = Chooser(catalog, LeaseRenewer(catalog, "me"), lambda error: None)
    assert chooser.tick() == 0
    assert chooser.wakes_in_ms is None
