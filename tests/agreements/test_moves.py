"""A payer hands a fragment over under a movement contract: who may, what follows, how it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from medusa_core.commits import Cause, Commit, LeaseKey, OutputSegment
from medusa_core.errors import Conflict, Refused
from medusa_core.fragments import Move, moved_fragment
from medusa_core.grid import Range
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.moves import MoveState
from medusa_core.names import FIRST_EPOCH
from medusa_core.network import Aggregate, Network, Output, Source
from medusa_core.plans import fingerprint_of
from medusa_core.segments import Producer, Stability
from pipelines.catalog.postgres.moves import PostgresMoves, open_moves_of
from pipelines.language.check import check_network, fragments_for
from pipelines.market.moves.move_order import document_of_order, order_in
from pipelines.market.moves.move_sync import MoveSync
from pipelines.market.moves.moved_deployments import KEPT_MS, order_of, provider_deployments
from pipelines.market.sync.contract_sync import settle
from pipelines.participant.trimming import needs_here
from pipelines.spark.deployment import deployment_of, plan_of
from tests.agreements.building import ALPHA, BETA, DAY_MS, Party, SqlRefused
from tests.agreements.homes import Watchers

WIDTH_US = 10_000_000
FRAGMENT, MOVED = "sums/main", moved_fragment("sums/main", Move(ALPHA, 1))
LENDS = """
INSERT INTO medusa_api.contract (contract, kind, payer, provider, currency, validity, settlement_ms,
    notice_ms, price_low, price_high, price_step, fragments, load_max, recovery, method,
    replicas, penalty, hold_ms_max)
VALUES ('load_of_alpha', 'movement', 'alpha', 'beta', 'EUR',
    '[2024-01-01 00:00Z,2096-01-01 00:00Z)', 86400000, 1000, 1, 1, 1, {fragments}, 2,
    'precise', 'upstream_backup', 1, 0, 86400000)
"""
NETWORK = Network(
    name="sums",
    sources=(Source(name="seen", columns={"at_us": "bigint", "host": "string"}, time="at_us"),),
    boxes=(Aggregate(name="each", input="seen", size="10s", group_by=("host",),
                     columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="each"),),
)  # fmt: skip


def lend(alpha: Party, beta: Party, fragments: str = "'{main}'") -> None:
    for party in (alpha, beta):
        party.sql(LENDS.format(fragments=fragments))
    exchanged(alpha, beta)
    for party in (alpha, beta):
        party.agreements.open_round(0, "a test")


def exchanged(alpha: Party, beta: Party) -> None:
    settle(party.contract_sync for party in (alpha, beta))


def moves(party: Party) -> PostgresMoves:
    return open_moves_of(party.urls.job)


def states(party: Party) -> Mapping[int, tuple[MoveState, str]]:
    return {one.number: (one.state, one.reason) for one in moves(party).statuses()}


def state(party: Party, number: int = 1) -> MoveState:
    return states(party)[number][0]


def begin(alpha: Party, number: int = 1, contract: str = "load_of_alpha") -> None:
    order = order_of(alpha.connections.catalog, FRAGMENT, number)
    moves(alpha).begin(contract, number, FRAGMENT, document_of_order(order), "a test")


@pytest.fixture
def syncs(alpha: Party, beta: Party, tmp_path: Path) -> tuple[MoveSync, MoveSync]:
    """Alpha lands `seen` and has computed three buckets of `counted`."""
    checked = check_network(NETWORK)
    plan = plan_of(NETWORK, checked, WIDTH_US, tmp_path)
    catalog = alpha.connections.catalog
    catalog.deploy(deployment_of(plan, checked, fragments_for(checked), Producer(ALPHA)))
    for fragment, stream in (("landing/seen", "seen"), (FRAGMENT, "counted")):
        key = LeaseKey(fragment=fragment, producer=Producer(ALPHA))
        lease = catalog.acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)
        segment = OutputSegment(
            stream=next(line.stream.name for line in catalog.lines() if line.stream.name == stream),
            range=Range(0, 3 * WIDTH_US),
            stability=Stability.STABLE,
        )
        catalog.commit(Commit(lease=lease, plan=plan.id, cause=Cause.NORMAL, segments=(segment,)))
    return tuple(
        MoveSync(
            moves(party),
            party.connections.catalog,
            party.connections.catalog,
            tmp_path,
            party.told.append,
        )
        for party in (alpha, beta)
    )  # type: ignore[return-value]


def may_read(party: Party, partner: str, stream: str, watchers: Watchers, here: Any) -> bool:
    with watchers[here].connect() as connection:
        ask = text("SELECT medusa_api.may_read(:partner, :stream)")
        return bool(connection.execute(ask, {"partner": partner, "stream": stream}).scalar_one())


def started(alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]) -> None:
    """The order has arrived, beta computes, and alpha imports."""
    begin(alpha)
    syncs[0].settle()
    exchanged(alpha, beta)
    assert state(beta) is MoveState.ACCEPTED
    assert syncs[1].settle() == 1
    exchanged(alpha, beta)
    syncs[0].settle()


def test_a_move_starts_in_both_homes_and_grants_what_each_needs_of_the_other(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync], watchers: Watchers
) -> None:
    lend(alpha, beta)
    assert not may_read(alpha, "beta", "seen", watchers, ALPHA)
    started(alpha, beta, syncs)
    assert (state(alpha), state(beta)) == (MoveState.STARTED, MoveState.STARTED)
    assert may_read(alpha, "beta", "seen", watchers, ALPHA)
    assert not may_read(alpha, "beta", "counted", watchers, ALPHA)
    assert may_read(beta, "alpha", "counted", watchers, BETA)
    assert not may_read(beta, "alpha", "seen", watchers, BETA)
    (hold,) = alpha.connections.catalog.holds(NETWORK.sources[0].stream_name)
    assert (hold.holder, hold.from_us) == (BETA, 3 * WIDTH_US)
    (lines,) = [line for line in beta.connections.catalog.lines() if line.producer == (BETA, 1)]
    assert lines.stream.name == "counted"
    assert [status.producer for status in beta.connections.catalog.imports()] == [Producer(ALPHA)]
    assert syncs[0].settle() == syncs[1].settle() == 0


def test_a_fragment_that_is_taken_back_leaves_nothing_in_either_home(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync], watchers: Watchers
) -> None:
    lend(alpha, beta)
    started(alpha, beta, syncs)
    assert moves(alpha).end(FRAGMENT, "enough")
    assert not moves(alpha).end(FRAGMENT, "enough")
    exchanged(alpha, beta)
    for sync in syncs:
        sync.settle()
    assert states(alpha)[1] == states(beta)[1] == (MoveState.ENDED, "enough")
    assert not may_read(alpha, "beta", "seen", watchers, ALPHA)
    assert not may_read(beta, "alpha", "counted", watchers, BETA)
    for party in (alpha, beta):
        assert moves(party).open_moves() == ()
        assert party.connections.catalog.imports() == ()
    with watchers[BETA].begin() as sql:
        # However many other moves there were meanwhile.
        sql.execute(text(
            "INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,"
            " order_document, reason) SELECT false, 'gamma', 'load', n, 'net/main', 'ended', '', ''"
            " FROM generate_series(1, 120) AS n"
        ))  # fmt: skip
    begin(alpha, 2)
    exchanged(alpha, beta)
    syncs[1].settle()
    assert state(beta, 2) is MoveState.STARTED
    imported = [one.stream for one in beta.connections.catalog.imports()]
    assert imported == ["seen"], "it was stopped with the first move"
    replicas = {line.producer.replica for line in beta.connections.catalog.lines()}
    assert replicas == {0, 1, 2}


def test_a_provider_keeps_what_a_move_has_brought_for_an_hour_behind_what_it_has_yet_to_read(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    lend(alpha, beta)
    started(alpha, beta, syncs)
    provider = beta.connections.catalog
    assert provider.retentions() == {"counted": KEPT_MS, "seen": KEPT_MS}
    needed_us = needs_here(provider)[NETWORK.sources[0].stream_name][MOVED]
    assert needed_us == 3 * WIDTH_US, "the moved fragment is known, and holds no more than it reads"
    assert alpha.connections.catalog.retentions() == {}


def test_a_stream_that_a_provider_had_before_keeps_its_retention(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    lend(alpha, beta)
    begin(alpha)
    exchanged(alpha, beta)
    (one,) = moves(beta).open_moves()
    order = order_in(one.order, Move(ALPHA, 1), FRAGMENT)
    imports = provider_deployments(beta.connections.catalog, order, Path())[0]
    beta.connections.catalog.deploy(replace(imports, kept_ms=None))
    syncs[1].settle()
    assert beta.connections.catalog.retentions() == {"counted": KEPT_MS}


def test_a_move_ends_with_its_contract_in_both_homes(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    lend(alpha, beta)
    started(alpha, beta, syncs)
    alpha.sql("DELETE FROM medusa_api.contract WHERE contract = 'load_of_alpha'")
    exchanged(alpha, beta)
    alpha.sql("SELECT pg_sleep(1.2)")
    for _ in range(2):
        for sync in syncs:
            sync.settle()
        exchanged(alpha, beta)
    assert (state(alpha), state(beta)) == (MoveState.ENDED, MoveState.ENDED)


def test_a_fragment_moves_only_under_a_contract_that_names_it(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    with pytest.raises(Refused, match="no contract load_of_alpha in force"):
        begin(alpha)
    lend(alpha, beta, "'{other}'")
    with pytest.raises(Refused, match="no contract load_of_alpha in force"):
        begin(alpha)
    with pytest.raises(Refused, match="no contract unheard in force"):
        begin(alpha, contract="unheard")
    assert states(alpha) == {}


def test_a_fragment_moves_once_at_a_time_and_numbers_count(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    lend(alpha, beta, "NULL")
    with pytest.raises(Conflict, match="another move has begun"):
        begin(alpha, 2)
    begin(alpha)
    with pytest.raises(Refused, match="end that move first"):
        begin(alpha, 2)
    assert moves(alpha).next_number() == 2


def send(alpha: Party, nonce: int, **changes: Any) -> None:
    """As a hostile payer would: a message that its own home would not make."""
    fields = {
        "contract": "load_of_alpha", "number": 1, "fragment": FRAGMENT, "state": "accepted",
        "order": "{}", "price": "1", "from_us": None, "to_us": None, "lost_us": None,
        "reason": "a test",
    } | changes  # fmt: skip
    ((now_ms,),) = alpha.sql("SELECT medusa.to_ms(clock_timestamp())")
    blank = Envelope(
        kind=EnvelopeKind.MOVE, sender=ALPHA, receiver=BETA, nonce=f"{nonce:032x}",
        sent_at_ms=now_ms, expires_at_ms=now_ms + DAY_MS, body=json.dumps(fields).encode(),
    )  # fmt: skip
    sealed = replace(blank, signature=alpha.key.sign(blank.bytes_to_sign))
    assert alpha.post.exchange.deliver(BETA, (sealed,)) == ("taken",)


def test_an_order_that_is_none_ends_the_move_with_a_reason(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    lend(alpha, beta)
    send(alpha, 1)
    beta.contract_sync.tick()
    syncs[1].settle()
    found, reason = states(beta)[1]
    assert found is MoveState.ENDED
    assert "the order of a move has other fields" in reason
    assert beta.connections.catalog.assignments() == ()


def test_without_a_contract_a_partner_hands_nothing_over(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    lend(alpha, beta, "'{other}'")
    send(alpha, 1)
    beta.contract_sync.tick()
    found, reason = states(beta)[1]
    assert found is MoveState.ENDED
    assert "no contract load_of_alpha in force lets alpha hand sums/main over to beta" in reason
    send(alpha, 2, number=2, contract="unheard")
    beta.contract_sync.tick()
    assert state(beta, 2) is MoveState.ENDED


def test_a_message_that_is_repeated_or_of_another_move_changes_nothing(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]
) -> None:
    lend(alpha, beta)
    started(alpha, beta, syncs)
    send(alpha, 1)
    send(alpha, 2, fragment="sums/other")
    send(alpha, 3, number=9, state="ended", order=None, price=None)
    beta.contract_sync.tick()
    assert state(beta, 9) is MoveState.ENDED
    send(alpha, 4, number=9)
    beta.contract_sync.tick()
    syncs[1].settle()
    assert state(beta, 9) is MoveState.ENDED, "its order comes behind its end"
    assert state(beta) is MoveState.STARTED
    refused = beta.sql("SELECT reason FROM medusa_api.inbox WHERE state = 'refused'")
    assert [reason for (reason,) in refused] == ["move 1 of alpha is another one"]


def test_the_states_of_a_move_come_in_order_even_for_the_administrator(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync], watchers: Watchers
) -> None:
    lend(alpha, beta)
    begin(alpha)
    for change in ("state = 'returning'", "state = 'released'", "fragment = 'sums/other'"):
        with pytest.raises(Exception, match="does not become"), watchers[ALPHA].begin() as sql:
            sql.execute(text(f"UPDATE medusa_market.move SET {change}"))
    for statement in ("DELETE FROM medusa_market.move", "DELETE FROM medusa_market.move_state"):
        with pytest.raises(Exception, match="insert-only"), watchers[ALPHA].begin() as sql:
            sql.execute(text(statement))
    with pytest.raises(SqlRefused):
        alpha.sql("UPDATE medusa_market.move SET state = 'ended'")


@pytest.mark.parametrize(
    ("fragment", "why"),
    [
        ("sums/unheard", "does not compute fragment sums/unheard"),
        ("landing/seen", "does not compute fragment landing/seen"),
        (MOVED, "does not compute fragment moved/alpha/1/sums/main"),
    ],
)
def test_only_what_is_computed_here_moves(
    alpha: Party, syncs: tuple[MoveSync, MoveSync], fragment: str, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        order_of(alpha.connections.catalog, fragment, 1)


def an_order(alpha: Party, **changes: Any) -> str:
    """The order of alpha's fragment, with its first input changed."""
    fields = json.loads(document_of_order(order_of(alpha.connections.catalog, FRAGMENT, 1)))
    fields["inputs"][0] |= changes
    return json.dumps(fields)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"participant": "beta"}, "alpha may not read stream seen of beta"),
        ({"participant": "gamma"}, "does not let beta read gamma/seen for alpha"),
        ({"replica": 1}, "an input that a replica computes"),
        ({"columns": [["at_us", "bigint"], ["host", "int"]]}, "another shape than its plan"),
        ({"width_us": 5_000_000}, "another shape than its plan"),
    ],
)
def test_an_order_reads_lines_that_the_payer_may_read_as_the_plan_has_them(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync], changes: dict[str, Any], why: str
) -> None:
    lend(alpha, beta)
    send(alpha, 1, order=an_order(alpha, **changes))
    beta.contract_sync.tick()
    syncs[1].settle()
    found, reason = states(beta)[1]
    assert found is MoveState.ENDED
    assert why in reason
    assert beta.connections.catalog.lines() == ()


@pytest.mark.parametrize("name", ["sums", "seen", "counted"])
def test_an_order_that_uses_a_name_of_the_home_is_refused_without_saying_which(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync], tmp_path: Path, name: str
) -> None:
    lend(alpha, beta)
    own = Network(
        name="sums" if name == "sums" else "mine",
        sources=(Source(name="own" if name == "sums" else name, columns={"at_us": "bigint"},
                        time="at_us"),),
        boxes=(), outputs=(),
    )  # fmt: skip
    checked = check_network(own)
    plan = plan_of(own, checked, WIDTH_US, tmp_path)
    beta.connections.catalog.deploy(
        deployment_of(plan, checked, fragments_for(checked), Producer(BETA))
    )
    send(alpha, 1, order=an_order(alpha))
    beta.contract_sync.tick()
    syncs[1].settle()
    found, reason = states(beta)[1]
    assert found is MoveState.ENDED
    assert "a network or stream of a name that fragment sums/main uses" in reason


@pytest.mark.parametrize("document", ["{}", '{"network": {"name": "sums"}}', "[1]"])
def test_a_plan_that_is_none_ends_the_move_and_nothing_else(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync], document: str
) -> None:
    lend(alpha, beta)
    fields = json.loads(an_order(alpha))
    fields["plan"] |= {"id": fingerprint_of(document), "document": document}
    send(alpha, 1, order=json.dumps(fields))
    beta.contract_sync.tick()
    syncs[1].settle()
    assert state(beta) is MoveState.ENDED
    assert beta.connections.catalog.lines() == ()
