"""A payer and a provider of load with real rows: files, plans, moves, statements and samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import text

from medusa_core.commits import Cause, Commit, Lease, LeaseKey, OutputSegment
from medusa_core.exchange import import_fragment
from medusa_core.fragments import Move, moved_fragment
from medusa_core.grid import Range
from medusa_core.market.moves import MoveState
from medusa_core.market.samples import Draw, seed_at
from medusa_core.names import FIRST_EPOCH, Participant, StreamName, Version
from medusa_core.network import Aggregate, Network, Output, Source
from medusa_core.segments import Producer, Stability
from pipelines.catalog.postgres.moves import open_moves_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.samples import open_samples
from pipelines.catalog.postgres.settlements import open_settlements
from pipelines.language.check import check_network, fragments_for
from pipelines.market.moves.move_begin import begin_move
from pipelines.market.moves.move_sync import MoveSync
from pipelines.market.settlement.sample_sync import SampleSync
from pipelines.market.settlement.settlement_sync import SettlementSync
from pipelines.market.sync.contract_sync import settle
from pipelines.quality.moved_samples import MovedSamples
from pipelines.spark.deployment import deployment_of, plan_of
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import file_schema
from pipelines.storage.segment_files import new_attempt, write_file
from pipelines.storage.segment_rows import columns_of, stream_record
from tests.agreements.building import ALPHA, BETA, DAY_MS, Party
from tests.agreements.homes import Parties, Watchers
from tests.books.lending import LENDS
from tests.books.trade import A_DAY, WIDTH_US, at_us

SEEN, COUNTED, FRAGMENT = StreamName("seen"), StreamName("counted"), "sums/main"
NETWORK = Network(
    name="sums",
    sources=(Source(name="seen", columns={"at_us": "bigint", "host": "string"}, time="at_us"),),
    boxes=(Aggregate(name="each", input="seen", size="60s", group_by=("host",),
                     columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="each"),),
)  # fmt: skip
OWN = 3
"""So many buckets alpha has computed before it hands the fragment over."""

RELEASED = OWN + 1
"""The first bucket that beta is paid for: the next but one."""

A_LOOK = 5
"""So many drawn buckets are recomputed in a look; about 14 of a day are drawn."""

Row = tuple[object, ...]
Rows = Mapping[int, Sequence[Row]]


def records(bucket: int) -> list[Row]:
    """What lands in a bucket: values of the declared columns, and the event time."""
    at = [at_us(bucket) + second * 1_000_000 for second in (0, 7, 20, 41)]
    return [(us, "ab"[us // 1_000_000 % 2], us) for us in at]


def counts(bucket: int) -> list[Row]:
    """The rows that are right for a bucket, counted by hand."""
    hosts = Counter(host for _, host, _ in records(bucket))
    start_us, end_us = at_us(bucket), at_us(bucket + 1) - 1
    return [(start_us, host, n, end_us) for host, n in sorted(hosts.items())]


def one_too_many(bucket: int) -> list[Row]:
    """Rows of a provider that does not compute what it should."""
    first, *others = counts(bucket)
    return [(*first[:2], int(str(first[2])) + 1, first[3]), *others]


@dataclass
class Sampling:
    """Alpha hands `sums/main` over to beta, whose rows may be wrong in some buckets; both homes
    keep their files in one folder."""

    parties: Parties
    watchers: Watchers
    folder: Path
    stack: ExitStack
    away_s: float = 3_600.0
    looks: dict[Participant, SettlementSync] = field(default_factory=dict)
    moves: dict[Participant, MoveSync] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.alpha, self.beta = self.parties[ALPHA], self.parties[BETA]
        for name, party in self.parties.items():
            self.start(name)
            moves = self.stack.enter_context(closing(open_moves_of(party.urls.job)))
            catalog = self.catalog(name)
            self.moves[name] = MoveSync(moves, catalog, catalog, self.folder, party.told.append)

    def start(self, name: Participant) -> None:
        """The program of a home begins, without anything that an earlier one had in memory."""
        party = self.parties[name]
        settlements = self.stack.enter_context(closing(open_settlements(party.urls.job)))
        samples = self.stack.enter_context(closing(open_samples(party.urls.job)))
        again = MovedSamples(self.catalog(name), self.folder)
        sync = SampleSync(samples, settlements, self.catalog(name), name, again, party.told.append,
            buckets_max=A_LOOK, away_s=self.away_s,
        )  # fmt: skip
        self.looks[name] = SettlementSync(
            settlements, name, party.told.append, looks_s=0, samples=sync
        )

    def catalog(self, name: Participant) -> PostgresCatalog:
        return self.parties[name].connections.catalog

    def lend(self, verify: str = "NULL") -> None:
        """A movement contract in force, and a fragment of alpha's that runs."""
        lends = LENDS.replace("hold_ms_max)", "hold_ms_max, verify)")
        for party in self.parties.values():
            party.sql(lends.replace("86400000)", f"86400000, {verify})"), DAY_MS,
                      ["main/seen=200", "main/counted=500"])  # fmt: skip
        self.exchange()
        for party in self.parties.values():
            party.agreements.open_round(0, "a test")
        checked = check_network(NETWORK)
        plan = plan_of(NETWORK, checked, WIDTH_US, self.folder)
        self.catalog(ALPHA).deploy(
            deployment_of(plan, checked, fragments_for(checked), Producer(ALPHA))
        )
        self.write(ALPHA, "landing/seen", SEEN, 0, OWN, records)
        self.write(ALPHA, FRAGMENT, COUNTED, 0, OWN, counts)

    def release(self) -> None:
        """Beta has caught up, and alpha adopts its rows from RELEASED on."""
        open_moves = self.stack.enter_context(closing(open_moves_of(self.alpha.urls.job)))
        begin_move(
            open_moves, self.catalog(ALPHA), self.catalog(ALPHA), contract="load_of_alpha",
            provider=BETA, fragment=FRAGMENT, reason="a test",
        )  # fmt: skip
        for _ in range(2):
            self.exchange()
            for sync in self.moves.values():
                sync.settle()
        self.exchange()
        self.moves[ALPHA].settle()
        self.runs(OWN, RELEASED)
        self.moves[ALPHA].settle()
        assert open_moves.open_moves()[0].state is MoveState.RELEASED
        self.exchange()

    def runs(self, from_bucket: int, to_bucket: int, wrong: Iterable[int] = ()) -> None:
        """Records land, beta computes them, and alpha imports the rows and acknowledges them."""
        is_wrong = set(wrong)

        def computed(bucket: int) -> list[Row]:
            return one_too_many(bucket) if bucket in is_wrong else counts(bucket)

        self.write(ALPHA, "landing/seen", SEEN, from_bucket, to_bucket, records)
        self.bring(ALPHA, BETA, SEEN, Producer(ALPHA))
        moved, by = moved_fragment(FRAGMENT, Move(ALPHA, 1)), Producer(BETA, 1)
        self.write(BETA, moved, COUNTED, from_bucket, to_bucket, computed, by=by)
        self.bring(BETA, ALPHA, COUNTED, by)
        (line,) = self.catalog(BETA).lines(COUNTED)
        self.catalog(BETA).acknowledge(
            COUNTED, ALPHA, at_us(to_bucket), DAY_MS, replica=1, version=line.version
        )

    def write(
        self, name: Participant, fragment: str, stream: StreamName, from_bucket: int,
        to_bucket: int, rows: Any, *, by: Producer | None = None,
    ) -> None:  # fmt: skip
        """Commit the rows of some buckets as one segment with a file."""
        catalog, by = self.catalog(name), by or Producer(name)
        columns = columns_of(stream_record(catalog, stream))
        schema = file_schema(columns)
        found = [
            (*row, at_us(bucket))
            for bucket in range(from_bucket, to_bucket)
            for row in rows(bucket)
        ]
        cells = [
            pa.array(values, type_).cast(one.type)
            for one, values in zip(schema, zip(*found, strict=True), strict=True)
            for type_ in [pa.int64() if pa.types.is_timestamp(one.type) else one.type]
        ]
        table = pa.table(cells, schema=schema)
        digests = digests_by_bucket(table, columns, np.array([row[-1] for row in found]))
        file = write_file(self.folder, stream, new_attempt(), table)
        plans = {a.fragment: a.plan for a in catalog.assignments() if a.producer == by}
        segment = OutputSegment(
            stream=stream, range=Range(at_us(from_bucket), at_us(to_bucket)),
            stability=Stability.STABLE, buckets=digests, files=(file,),
        )  # fmt: skip
        catalog.commit(
            Commit(lease=self.lease(name, fragment, by), plan=plans[fragment], cause=Cause.NORMAL,
                   segments=(segment,))
        )  # fmt: skip

    def bring(
        self, origin: Participant, reader: Participant, stream: StreamName, by: Producer
    ) -> None:
        """The reader imports what is new of a line of the origin."""
        catalog = self.catalog(reader)
        known = {line.producer: line.version for line in catalog.lines(stream)}
        news = self.catalog(origin).line_news(
            stream, by, known.get(by, Version(0)), segments_max=99
        )
        fragment = import_fragment(stream)
        plans = {a.fragment: a.plan for a in catalog.assignments()}
        lease = self.lease(reader, fragment, Producer(reader))
        assert catalog.import_line(lease, news, plans[fragment])

    def lease(self, name: Participant, fragment: str, by: Producer) -> Lease:
        key = LeaseKey(fragment=fragment, producer=by)
        return self.catalog(name).acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)

    def exchange(self) -> None:
        """Send, verify and take all messages."""
        settle(party.contract_sync for party in (self.alpha, self.beta))

    def settle(self) -> None:
        """Until all samples are recomputed and nothing moves any more."""
        for at in range(24):
            self.exchange()
            if not sum(look.settle() for look in self.looks.values()) and at * A_LOOK > 40:
                return

    def root(self) -> bytes:
        """The payer's secret."""
        with self.watchers[ALPHA].connect() as connection:
            found = connection.execute(text("SELECT root FROM medusa_market.sample_seed"))
            return bytes(found.scalar_one())

    def drawn(self) -> list[int]:
        """The buckets of the first period that alpha recomputes, and pays beta for."""
        seed = seed_at(self.root(), 0)
        assert seed is not None
        draw = Draw(seed)
        return [bucket for bucket in range(RELEASED, A_DAY) if draw.has(COUNTED, at_us(bucket))]

    def execute(self, home: Participant, statement: str) -> None:
        """Run a statement as the superuser, past every guard."""
        with self.watchers[home].connect() as connection:
            connection.execute(text("SET session_replication_role = replica"))
            connection.execute(text(statement))
            connection.execute(text("RESET session_replication_role"))

    def dispute(self, party: Party) -> tuple[Any, ...]:
        """The one dispute as a home has it."""
        (found,) = party.sql(
            "SELECT state, claimed, agreed, blocked, from_us, to_us FROM medusa_api.bill_disputes"
        )
        return found

    def check_books(self) -> None:
        """S9 in both homes."""
        for party in self.parties.values():
            assert party.sql(
                "SELECT entry_id FROM medusa_api.books GROUP BY entry_id "
                "HAVING sum(amount) <> 0 OR count(*) < 2"
            ) == []  # fmt: skip

    def told(self) -> list[str]:
        """What was refused or failed in either home."""
        return [str(error) for party in self.parties.values() for error in party.told]
