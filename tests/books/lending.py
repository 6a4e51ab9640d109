"""A payer and a provider of load: moves and rows in both homes, and what their books have."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from medusa_core.names import Participant
from tests.agreements.building import ALPHA, BETA, DAY_MS
from tests.books.trade import BEGINS_US, WIDTH_US, Trade, at_us

LENDS = """
INSERT INTO medusa_api.contract (contract, kind, payer, provider, currency, validity, settlement_ms,
    notice_ms, price_low, price_high, price_step, fragments, load_max, reference, recovery, method,
    replicas, bound_ms, penalty, hold_ms_max)
VALUES ('load_of_alpha', 'movement', 'alpha', 'beta', 'EUR',
    '[2024-01-01 00:00Z,2096-01-01 00:00Z)', %s, 1000, 1, 2, 0.5, '{main}', 2, %s, 'precise',
    'upstream_backup', 1, 30000, 5, 86400000)
"""
REFERENCE = ["main/seen=2", "main/counted=500.5"]
LINES = f"""
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns)
    VALUES ('seen', 'source', {WIDTH_US}, '[]', '{{}}'),
        ('counted', 'derived', {WIDTH_US}, '[]', '{{}}');
    INSERT INTO medusa.stream_order (stream) VALUES ('seen'), ('counted');
    INSERT INTO medusa.stream_producer (stream, participant, replica, origin_us, boundary_us)
    VALUES ('seen', 'alpha', 0, {BEGINS_US}, {BEGINS_US});
END $$
"""
MOVED = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO medusa.stream_producer (stream, participant, replica, origin_us, boundary_us)
    VALUES ('counted', 'beta', {number}, {begins}, {begins});
    INSERT INTO medusa.fragment (id, network, inputs, outputs)
    VALUES ('moved/alpha/{number}/net/main', 'n', '{{seen}}', '{{counted}}');
END $$
"""
MOVE = """
INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
    order_document, reason, price, from_us, to_us, lost_us, is_own_loss)
VALUES (:is_given, :partner, 'load_of_alpha', :number, 'net/main', :state,
    '{"inputs": [{"stream": "seen", "participant": "alpha", "replica": 0}]}', 'x', :price,
    :from_us, :to_us, :lost_us, :is_own_loss)
"""


class Lending(Trade):
    """Beta computes the fragment net/main of alpha, which reads `seen` and writes `counted`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for home in (ALPHA, BETA):
            self.execute(home, LINES)

    def lend(self, reference: list[str] | None = None, settlement_ms: int = DAY_MS) -> None:
        """A movement contract, active in both homes."""
        for party in (self.alpha, self.beta):
            party.sql(LENDS, settlement_ms, REFERENCE if reference is None else reference)
        self.exchange()
        for party in (self.alpha, self.beta):
            party.agreements.open_round(0, "a test")

    def revise_reference(self, reference: list[str]) -> None:
        """Both parties edit what load is billed by, and the revision is active in both homes."""
        for party in (self.alpha, self.beta):
            party.sql("UPDATE medusa_api.contract SET reference = %s", reference)
            self.exchange()
        for party in (self.alpha, self.beta):
            party.agreements.open_round(0, "a test")

    def move(
        self,
        number: int,
        from_bucket: int | None,
        to_bucket: int | None = None,
        *,
        price: str = "1.5",
        lost: int | None = None,
        is_own_loss: bool | None = None,
        state: str = "started",
    ) -> None:
        """A move as both parties know it; its lines are there."""
        for home in (ALPHA, BETA):
            self.execute(home, MOVED.format(number=number, begins=BEGINS_US))
            self.execute(
                home,
                MOVE,
                is_given=home == ALPHA,
                partner=BETA if home == ALPHA else ALPHA,
                number=number,
                state="ended" if to_bucket is not None else state,
                price=Decimal(price),
                from_us=None if from_bucket is None else at_us(from_bucket),
                to_us=None if to_bucket is None else at_us(to_bucket),
                lost_us=None if lost is None else at_us(lost),
                is_own_loss=None if home == ALPHA else is_own_loss,
            )

    def acknowledge(self, number: int, to_bucket: int) -> None:
        """The payer has received the results of a move up to a bucket."""
        self.execute(
            BETA,
            "INSERT INTO medusa.line_version (line_id, version, chain, stable_us) "
            "SELECT line_id, last_version, sha256(''), :to_us FROM medusa.stream_producer "
            "WHERE stream = 'counted' AND replica = :number "
            "ON CONFLICT (line_id, version) DO UPDATE SET stable_us = excluded.stable_us",
            to_us=at_us(to_bucket),
            number=number,
        )
        self.execute(
            BETA,
            "INSERT INTO medusa.hold (stream, holder, purpose, from_us, versions) "
            "SELECT stream, 'alpha', 'import', 0, jsonb_build_object(replica, last_version) "
            "FROM medusa.stream_producer WHERE stream = 'counted' AND replica = :number "
            "ON CONFLICT (stream, holder, purpose) DO UPDATE SET versions = excluded.versions",
            number=number,
        )

    def ends(self, number: int, to_bucket: int) -> None:
        """The end of a move becomes known in both homes."""
        for home in (ALPHA, BETA):
            self.execute(
                home,
                "UPDATE medusa_market.move SET to_us = :to_us, state = 'ended' "
                "WHERE number = :number",
                to_us=at_us(to_bucket),
                number=number,
            )

    def line(
        self,
        stream: str,
        from_bucket: int,
        to_bucket: int,
        rows: Mapping[int, int],
        *,
        replica: int = 0,
        homes: tuple[Participant, ...] = (ALPHA, BETA),
    ) -> None:
        """Final rows of a line in these homes; replica 0 is the payer's."""
        of = f"p.stream = '{stream}' AND p.replica = {replica}"
        for home in homes:
            self.execute(
                home,
                "UPDATE medusa.stream_producer AS p SET last_version = last_version + 1, "
                f"boundary_us = greatest(boundary_us, :to_us) WHERE {of}",
                to_us=at_us(to_bucket),
            )
            self.segment(home, of, from_bucket, to_bucket, rows)

    def charges(self) -> list[Any]:
        """The charges of the provider's first statement."""
        ((document,),) = self.beta.sql(
            "SELECT convert_from(document, 'UTF8')::jsonb->'charges' FROM medusa_market.bill "
            "WHERE made_by = 'beta' ORDER BY period LIMIT 1"
        )
        return list(document)
