"""A seller and a buyer of a stream: rows in both homes, settlements, and what their books have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import text

from medusa_core.market.terms import ContractName
from medusa_core.names import Participant
from pipelines.catalog.postgres.settlements import PostgresSettlements
from pipelines.market.settlement.disputes import Disputes
from pipelines.market.settlement.settlement_sync import SettlementSync
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import ALPHA, BETA, DAY_MS, Party
from tests.agreements.homes import Parties, Watchers

WIDTH_US = 60_000_000
BEGINS_MS = 1_704_067_200_000  # 2024-01-01
BEGINS_US = BEGINS_MS * 1_000
Stores = Mapping[Participant, PostgresSettlements]
A_DAY = DAY_MS * 1_000 // WIDTH_US
"""How many buckets a day has."""

CONTRACT = "sums_for_alpha"
SELLS = """
INSERT INTO medusa_api.contract (contract, kind, payer, provider, currency, validity, settlement_ms,
    notice_ms, stream, price, per, recovery, method, replicas, penalty, hold_ms_max)
VALUES (%s, 'content', 'alpha', 'beta', 'EUR', '[2024-01-01 00:00Z,2096-01-01 00:00Z)', %s,
    1000, 'sums', %s, %s, %s, 'upstream_backup', 1, %s, 86400000)
"""
STREAM = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO medusa.participant (name) VALUES ('alpha'), ('beta') ON CONFLICT DO NOTHING;
    INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns)
    VALUES ('sums', 'derived', {width}, '[]', '{{}}');
    INSERT INTO medusa.stream_order (stream) VALUES ('sums');
    INSERT INTO medusa.stream_producer (stream, participant, replica, origin_us, boundary_us)
    VALUES ('sums', 'beta', 0, {begins}, {begins});
    INSERT INTO medusa.network (name, document) VALUES ('n', '{{}}');
    INSERT INTO medusa.plan (id, network, document) VALUES ('p', 'n', '{{}}');
    INSERT INTO medusa.fragment (id, network, inputs, outputs)
    VALUES ('f', 'n', '{{}}', '{{sums}}');
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    VALUES ('k', 'f', 0, 'beta', 0, 'live', 1, 'p', 'normal', 0, 1, '{{}}', now());
END $$
"""
SEGMENT = """
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
    SELECT p.line_id, :from_us, :to_us, CAST(:stability AS medusa.stability), p.last_version,
        p.last_version, 'p', (SELECT min(commit_id) FROM medusa.commit), :buckets, :rows,
        CAST(:sums AS numeric[]), CAST(:sums AS numeric[]),
        CASE cardinality(CAST(:buckets AS bigint[])) WHEN 0 THEN '{{}}'::bigint[] ELSE '{{1}}' END
    FROM medusa.stream_producer AS p WHERE {of}
"""
SUMS = "p.stream = 'sums'"


@dataclass
class Trade:
    """Alpha buys `sums` of beta; rows are written into both homes as commits and imports do it."""

    parties: Parties
    watchers: Watchers
    stores: Stores

    def __post_init__(self) -> None:
        self.alpha, self.beta = self.parties[ALPHA], self.parties[BETA]
        for name in (ALPHA, BETA):
            self.execute(name, STREAM.format(width=WIDTH_US, begins=BEGINS_US))

    def execute(self, home: Participant, statement: str, **values: Any) -> None:
        """Run a statement as the superuser, past every guard."""
        with self.watchers[home].connect() as connection:  # each statement by itself
            connection.execute(text("SET session_replication_role = replica"))
            connection.execute(text(statement.replace("::", r"\:\:")), values)
            connection.execute(text("RESET session_replication_role"))

    def agree(
        self,
        price: str = "0.002",
        per: str = "record",
        settlement_ms: int = DAY_MS,
        *,
        recovery: str = "precise",
        penalty: str = "0",
    ) -> None:
        """A content contract, active in both homes."""
        for party in (self.alpha, self.beta):
            party.sql(SELLS, CONTRACT, settlement_ms, price, per, recovery, penalty)
        self.exchange()
        for party in (self.alpha, self.beta):
            party.agreements.open_round(0, "a test")

    def rows(
        self,
        from_bucket: int,
        to_bucket: int,
        rows: Mapping[int, int],
        *,
        homes: tuple[Participant, ...] = (ALPHA, BETA),
        seed: int = 1,
        stability: str = "stable",
    ) -> None:
        """Write a segment with so many rows in each bucket; the stable prefix reaches its end."""
        for home in homes:
            self.execute(
                home,
                "UPDATE medusa.stream_producer SET last_version = last_version + 1, "
                "boundary_us = greatest(boundary_us, :to_us) WHERE stream = 'sums'",
                to_us=at_us(to_bucket),
            )
            self.segment(home, SUMS, from_bucket, to_bucket, rows, seed, stability)

    def revise(
        self,
        from_bucket: int,
        to_bucket: int,
        rows: Mapping[int, int],
        *,
        homes: tuple[Participant, ...] = (ALPHA, BETA),
    ) -> None:
        """Replace the rows of whole segments, as a revision does."""
        for home in homes:
            self.execute(
                home,
                "UPDATE medusa.stream_producer SET last_version = last_version + 1, "
                "generation = generation + 1 WHERE stream = 'sums'",
            )
            self.execute(
                home,
                "UPDATE medusa.segment AS s SET end_version = p.last_version "
                "FROM medusa.stream_producer AS p WHERE p.line_id = s.line_id "
                "AND s.end_version IS NULL AND s.from_us >= :from_us AND s.to_us <= :to_us",
                from_us=at_us(from_bucket),
                to_us=at_us(to_bucket),
            )
            self.execute(
                home,
                "INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version, "
                "ranges, changed) SELECT p.line_id, p.generation, :from_us, 'x', 'x', "
                "p.last_version, r.it, r.it FROM medusa.stream_producer AS p, LATERAL (SELECT "
                "int8multirange(int8range(:from_us, :to_us)) AS it) AS r",
                from_us=at_us(from_bucket),
                to_us=at_us(to_bucket),
            )
            self.segment(home, SUMS, from_bucket, to_bucket, rows)

    def segment(
        self,
        home: Participant,
        of: str,
        from_bucket: int,
        to_bucket: int,
        rows: Mapping[int, int],
        seed: int = 1,
        stability: str = "stable",
    ) -> None:
        """A segment of the line that is named in SQL."""
        buckets = sorted(bucket for bucket in rows if rows[bucket])
        self.execute(
            home,
            SEGMENT.format(of=of),
            from_us=at_us(from_bucket),
            to_us=at_us(to_bucket),
            stability=stability,
            buckets=[at_us(bucket) for bucket in buckets],
            rows=[rows[bucket] for bucket in buckets],
            sums=[Decimal(rows[bucket] * (bucket + 7) * seed) for bucket in buckets],
        )

    def look(self, *parties: Party) -> int:
        """Count, state and answer once in each home."""
        done = 0
        for party in parties or (self.alpha, self.beta):
            sync = SettlementSync(self.stores[party.name], party.name, party.told.append, looks_s=0)
            done += sync.settle()
        return done

    def exchange(self) -> None:
        """Send, verify and take all messages."""
        settle(party.contract_sync for party in (self.alpha, self.beta))

    def settle(self) -> None:
        """Until nothing moves any more."""
        for _ in range(6):
            self.exchange()
            if not self.look():
                return

    def end_dispute(self, contract: str, period: int, outcome: str) -> None:
        """The payer takes what is claimed, or the provider the payer's own figures."""
        party = self.alpha if outcome == "claimed" else self.beta
        disputes = Disputes(self.stores[party.name], party.name)
        if outcome == "claimed":
            disputes.withdraw(ContractName(contract), period)
        else:
            disputes.concede(ContractName(contract), period)

    def bills(self, party: Party, columns: str = "period, made_by, state, total, owed, blocked"
              ) -> list[tuple[Any, ...]]:  # fmt: skip
        """Statements as the owner sees them, in order."""
        return party.sql(
            f"SELECT {columns} FROM medusa_api.bills ORDER BY contract, period, made_by"
        )

    def accounts(self, party: Party) -> dict[str, Decimal]:
        """The balance of each account."""
        return dict(party.sql("SELECT account, balance FROM medusa_api.accounts"))

    def check_books(self) -> None:
        """S9 in both homes, and that each owes what the other is owed."""
        for party in (self.alpha, self.beta):
            entries = party.sql(
                "SELECT entry_id FROM medusa_api.books GROUP BY entry_id "
                "HAVING sum(amount) <> 0 OR count(*) < 2"
            )
            assert entries == []


def at_us(bucket: int) -> int:
    """The beginning of a bucket, counted from the beginning of the contract."""
    return BEGINS_US + bucket * WIDTH_US
