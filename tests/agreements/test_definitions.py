"""A buyer defines boxes over the stream that it buys: who may, what runs, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from medusa_core.commits import Hold
from medusa_core.errors import MedusaError, Refused
from medusa_core.market.definitions import definition_of, document_of_definition
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.terms import ContractName
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Filter, Map, Network, Output, Source
from medusa_core.segments import Producer
from pipelines.catalog.postgres.definitions import PostgresDefinitions, open_definitions
from pipelines.language.check import check_network, fragments_for
from pipelines.market.definitions.definition_sync import DefinitionSync
from pipelines.market.sync.contract_sync import settle
from pipelines.spark.deployment import deployment_of, plan_of
from tests.agreements.building import ALPHA, BETA, DAY_MS, Party, SqlRefused
from tests.agreements.homes import Watchers

COLUMNS = {"at_us": "bigint", "host": "string", "n": "bigint"}
SELLS = """
INSERT INTO medusa_api.contract (contract, kind, payer, provider, currency, validity, settlement_ms,
    notice_ms, stream, price, per, recovery, method, replicas, penalty, hold_ms_max, boxes,
    load_max)
VALUES ('sums_for_alpha', 'content', 'alpha', 'beta', 'EUR',
    '[2024-01-01 00:00Z,2096-01-01 00:00Z)', 86400000, 1000, 'sums', 0.001, 'record', 'precise',
    'upstream_backup', 1, 0, 86400000, {boxes}, {load_max})
"""
BUSY = Network(
    name="mine",
    sources=(Source(name="s", stream="beta/sums", columns=COLUMNS),),
    boxes=(
        Filter(name="large", input="s", cases={"yes": "n > 10"}),
        Map(name="slim", input="large", columns={"host": "host", "n": "n * 2"}),
        Aggregate(name="each", input="slim", size="10s", group_by=("host",),
                  columns={"total": "sum(n)"}),
    ),
    outputs=(Output(name="busy", input="each"),),
)  # fmt: skip


def sell(
    alpha: Party, beta: Party, *, boxes: str = "'{filter,map,aggregate}'", load_max: str = "0.5"
) -> None:
    for party in (alpha, beta):
        party.sql(SELLS.format(boxes=boxes, load_max=load_max))
    settle(party.contract_sync for party in (alpha, beta))
    for party in (alpha, beta):
        party.agreements.open_round(0, "a test")


def definitions(party: Party) -> PostgresDefinitions:
    return open_definitions(party.urls.job)


@pytest.fixture
def sync(beta: Party, tmp_path: Path) -> DefinitionSync:
    """Beta lands `sums` and `secret`."""
    for name in ("sums", "secret"):
        network = Network(
            name=f"feed_{name}",
            sources=(Source(name=name, columns=COLUMNS, time="at_us"),),
            boxes=(),
            outputs=(),
        )
        checked = check_network(network)
        plan = plan_of(network, checked, 10_000_000, tmp_path)
        beta.connections.catalog.deploy(
            deployment_of(plan, checked, fragments_for(checked), Producer(BETA))
        )
    return DefinitionSync(definitions(beta), beta.connections.catalog, tmp_path, beta.told.append)


def define(alpha: Party, network: Network = BUSY) -> None:
    definitions(alpha).define(
        definition_of(network, ContractName("sums_for_alpha"), BETA, StreamName("sums"))
    )


def exchanged(alpha: Party, beta: Party) -> None:
    settle(party.contract_sync for party in (alpha, beta))


def states(party: Party) -> Mapping[str, tuple[str, str | None]]:
    return {one.name: (one.state, one.reason) for one in definitions(party).statuses()}


def may_read(beta: Party, partner: str, watchers: Watchers, stream: str = "alpha__busy") -> bool:
    with watchers[BETA].connect() as connection:
        ask = text("SELECT medusa_api.may_read(:partner, :stream)")
        return bool(connection.execute(ask, {"partner": partner, "stream": stream}).scalar_one())


def send(alpha: Party, document: Any, *, number: object = 1, nonce: int = 1) -> None:
    """As a hostile buyer would: a message that its own home would not make."""
    body = document if isinstance(document, bytes) else json.dumps(
        document | {"number": number}
    ).encode()  # fmt: skip
    ((now_ms,),) = alpha.sql("SELECT medusa.to_ms(clock_timestamp())")
    blank = Envelope(
        kind=EnvelopeKind.DEFINITION, sender=ALPHA, receiver=BETA, nonce=f"{nonce:032x}",
        sent_at_ms=now_ms, expires_at_ms=now_ms + DAY_MS, body=body,
    )  # fmt: skip
    sealed = replace(blank, signature=alpha.key.sign(blank.bytes_to_sign))
    assert alpha.post.exchange.deliver(BETA, (sealed,)) == ("taken",)


def replies(beta: Party) -> list[str]:
    """Why beta refused definitions, as it has written to alpha."""
    bodies = [json.loads(e.body) for e in beta.post.seen if e.kind is EnvelopeKind.DEFINED]
    return [body["reason"] for body in bodies if body["state"] == "refused"]


def a_document(**changes: Any) -> dict[str, Any]:
    network_definition = definition_of(
        BUSY, ContractName("sums_for_alpha"), BETA, StreamName("sums")
    )
    return json.loads(document_of_definition(network_definition)) | changes


def test_a_definition_runs_at_the_seller_for_its_buyer_alone(
    alpha: Party, beta: Party, sync: DefinitionSync, watchers: Watchers
) -> None:
    sell(alpha, beta)
    define(alpha)
    define(alpha)
    assert states(alpha) == {"busy": ("sent", None)}
    exchanged(alpha, beta)
    assert states(beta) == {"busy": ("waiting", None)}
    assert not may_read(beta, "alpha", watchers)
    assert (sync.settle(), sync.settle()) == (1, 0)
    exchanged(alpha, beta)
    assert states(alpha) == states(beta) == {"busy": ("running", None)}
    assert may_read(beta, "alpha", watchers)
    assert not may_read(beta, "gamma", watchers)
    assert not may_read(beta, "alpha", watchers, "secret")
    fragments = {a.fragment for a in beta.connections.catalog.assignments()}
    assert "alpha__busy/main" in fragments
    (line,) = beta.connections.catalog.lines(StreamName("alpha__busy"))
    assert dict(line.stream.columns) == {
        "window_start": "timestamp", "host": "string", "total": "bigint",
    }  # fmt: skip
    ((shown,),) = beta.sql("SELECT state FROM medusa_api.definitions")
    assert shown == "running"
    assert beta.told == []


@pytest.mark.long(quick=True)
def test_with_the_contract_the_definition_ends_its_grant_at_once_and_what_it_holds(
    alpha: Party, beta: Party, sync: DefinitionSync, watchers: Watchers
) -> None:
    sell(alpha, beta)
    define(alpha)
    exchanged(alpha, beta)
    sync.settle()
    exchanged(alpha, beta)
    catalog = beta.connections.catalog
    for stream, holder, purpose in (
        ("sums", "alpha__busy/main", "progress"),
        ("alpha__busy", "alpha", "import"),
    ):
        hold = Hold(stream=StreamName(stream), holder=holder, purpose=purpose, from_us=0)
        catalog.place_hold(hold)
    alpha.sql("DELETE FROM medusa_api.contract")
    exchanged(alpha, beta)
    for party in (ALPHA, BETA):
        with watchers[party].begin() as connection:
            connection.execute(text("SET session_replication_role = replica"))
            connection.execute(
                text("UPDATE medusa_market.contract_notice SET ends_at = clock_timestamp()")
            )
    assert not may_read(beta, "alpha", watchers), "before anybody has looked"
    assert (sync.settle(), sync.settle()) == (1, 0)
    exchanged(alpha, beta)
    for party in (alpha, beta):
        (state, reason) = states(party)["busy"]
        assert (state, "not in force any more" in str(reason)) == ("ended", True)
    assert all(not a.fragment.startswith("alpha__") for a in catalog.assignments())
    assert [*catalog.holds(StreamName("sums")), *catalog.holds(StreamName("alpha__busy"))] == []
    with pytest.raises(SqlRefused, match="no contract sums_for_alpha in force lets alpha define"):
        alpha.sql("SELECT medusa_market.define_boxes('sums_for_alpha', 'x', '{}')", role="job")


def test_what_a_partner_has_defined_ends_when_it_is_removed(
    alpha: Party, beta: Party, sync: DefinitionSync, watchers: Watchers
) -> None:
    sell(alpha, beta)
    define(alpha)
    exchanged(alpha, beta)
    sync.settle()
    assert states(beta)["busy"] == ("running", None)
    beta.sql("SELECT medusa_api.remove_partner('alpha')")
    assert (sync.settle(), sync.settle()) == (1, 0)
    (state, reason) = states(beta)["busy"]
    assert (state, "no partner any more" in str(reason)) == ("ended", True)
    fragments = {a.fragment for a in beta.connections.catalog.assignments()}
    assert not any(fragment.startswith("alpha__") for fragment in fragments)
    assert not may_read(beta, "alpha", watchers)


@pytest.mark.long(quick=True)
def test_a_buyer_withdraws_a_definition_and_uses_a_name_once(
    alpha: Party, beta: Party, sync: DefinitionSync, watchers: Watchers
) -> None:
    sell(alpha, beta)
    define(alpha)
    exchanged(alpha, beta)
    sync.settle()
    exchanged(alpha, beta)
    assert definitions(alpha).withdraw("busy")
    assert not definitions(alpha).withdraw("busy")
    exchanged(alpha, beta)
    assert states(beta) == states(alpha) == {"busy": ("ended", "withdrawn")}
    assert not may_read(beta, "alpha", watchers)
    with pytest.raises(Refused, match="definition busy has been ended: choose another name"):
        define(alpha)
    other = replace(BUSY, boxes=BUSY.boxes[:1], outputs=(Output(name="busy", input="large"),))
    with pytest.raises(Refused, match="a definition busy is known already, and a name is used"):
        define(alpha, other)
    define(alpha, replace(other, outputs=(Output(name="again", input="large"),)))
    exchanged(alpha, beta)
    sync.settle()
    assert states(beta)["again"] == ("running", None)


def test_a_definition_that_takes_more_than_the_contract_allows_is_ended(
    alpha: Party, beta: Party, sync: DefinitionSync, watchers: Watchers
) -> None:
    sell(alpha, beta, load_max="0.5")
    define(alpha)
    exchanged(alpha, beta)
    sync.settle()
    sample = {
        "driver": "d", "number": 1, "lane": "live", "length_ms": 10_000, "total_us": 9_000_000,
        "ended_ago_ms": 0, "parts": [
            {"kind": "work", "fragment": "alpha__busy/main", "partition": 0, "cause": "normal",
             "cpu_us": 6_000_000},
            {"kind": "unattributed", "fragment": None, "partition": None, "cause": None,
             "cpu_us": 3_000_000},
        ],
    }  # fmt: skip
    beta.sql("SELECT medusa_market.record_load(%s)", json.dumps(sample), role="job")
    ((cpu_s,),) = beta.sql("SELECT cpu_s FROM medusa_api.definitions")
    assert float(cpu_s) == 6.0
    assert sync.settle() == 0, "it has begun just now"
    with watchers[BETA].begin() as connection:
        connection.execute(
            text("UPDATE medusa_market.definition SET settled_at = settled_at - interval '5 min'")
        )
    assert sync.settle() == 1
    assert states(beta)["busy"] == (
        "ended",
        "it takes 0.6 cores: contract sums_for_alpha allows 0.5",
    )


A_MAP = {"kind": "map", "name": "m", "input": "sums", "columns": [["n", "n"]]}
REFUSED_AT_ONCE: Mapping[str, tuple[Any, str]] = {
    "a Function": (
        a_document(boxes=[{"kind": "function", "name": "f", "inputs": ["sums"], "function": "f",
                           "columns": [["n", "bigint"]]}]),
        "a box of a definition is of kind filter, map, aggregate, not 'function'",
    ),
    "a Union": (a_document(boxes=[{"kind": "union"}]), "not 'union'"),
    "code beside a box": (a_document(boxes=[A_MAP | {"function": "os.system"}]), "has the fields"),
    "a fragment of its own": (a_document(boxes=[A_MAP | {"fragment": "x"}]), "has the fields"),
    "a source of its own": (a_document(sources=[]), "has format medusa.definition/1"),
    "another format": (a_document(format="medusa.definition/2"), "has format medusa.definition/1"),
    "too many boxes": (
        a_document(boxes=[A_MAP | {"name": f"m{n}"} for n in range(17)]), "write 1 to 16",
    ),
    "an enormous expression": (
        a_document(boxes=[A_MAP | {"columns": [["n", "n + " * 300 + "n"]]}]),
        "more than 1000 characters",
    ),
    "too many expressions": (
        a_document(boxes=[A_MAP | {"columns": [[f"c{n}", "n"] for n in range(65)]}]),
        "lists of 64 items at most",
    ),
    "too many expressions in all": (
        a_document(boxes=[
            A_MAP | {"name": f"m{box}", "columns": [[f"c{n}", "n"] for n in range(60)]}
            for box in range(2)]),
        "has 120 expressions: write 64 at most",
    ),
    "a name twice": (
        a_document(boxes=[A_MAP | {"columns": [["n", "n"], ["n", "1"]]}]), "names 'n' twice",
    ),
    "numbers for texts": (a_document(boxes=[A_MAP | {"columns": [["n", 1]]}]), "a text belongs"),
    "no name": (a_document(name="../busy"), "is not a name"),
    "no JSON": (b"\xff\x00", "this is no definition"),
    "no object": (b"[1]", "this is no definition"),
    "deep JSON": (b"[" * 50_000, "this is no definition"),
    "no number": (json.dumps(a_document()).encode(), "this is no definition"),
}  # fmt: skip


@pytest.mark.long(quick=True)
def test_a_document_that_is_no_definition_is_refused_and_leaves_nothing(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    sell(alpha, beta)
    for nonce, (what, (document, sentence)) in enumerate(REFUSED_AT_ONCE.items(), 1):
        send(alpha, document, nonce=nonce)
        exchanged(alpha, beta)
        assert len(beta.told) == nonce, what
        assert sentence in str(beta.told[-1]), what
    assert (states(beta), sync.settle()) == ({}, 0)


REFUSED_BY_THE_DESK: Mapping[str, tuple[dict[str, Any], str]] = {
    "another stream of the seller": (
        a_document(boxes=[A_MAP | {"input": "secret"}], output="m"), "secret",
    ),
    "a stream that is not there": (
        a_document(boxes=[A_MAP | {"input": "absent"}], output="m"), "absent",
    ),
    "a function that is not allowed": (
        a_document(boxes=[A_MAP | {"columns": [["n", "java_method('java.lang.System', 'exit')"]]}],
                   output="m"),
        "java_method",
    ),
    "a variable": (
        a_document(boxes=[A_MAP | {"columns": [["n", "${env:HOME}"]]}], output="m"), "${env:HOME}",
    ),
    "a subquery": (
        a_document(boxes=[A_MAP | {"columns": [["n", "(SELECT max(n) FROM secret)"]]}], output="m"),
        "SELECT",
    ),
    "parentheses without end": (
        a_document(boxes=[A_MAP | {"columns": [["n", "(" * 480 + "n" + ")" * 480]]}], output="m"),
        "",
    ),
    "a column that is not there": (
        a_document(boxes=[A_MAP | {"columns": [["n", "salary"]]}], output="m"), "salary",
    ),
    "chance": (a_document(boxes=[A_MAP | {"columns": [["n", "rand()"]]}], output="m"), "rand"),
    "no port": (a_document(boxes=[A_MAP], output="other"), "other"),
    "a cycle": (
        a_document(boxes=[A_MAP | {"input": "o"}, A_MAP | {"name": "o", "input": "m"}], output="o"),
        "",
    ),
}  # fmt: skip


def test_boxes_that_the_seller_would_not_write_itself_are_refused_to_the_buyer(
    alpha: Party, beta: Party, sync: DefinitionSync, watchers: Watchers
) -> None:
    sell(alpha, beta)
    names = {what: f"n{number}" for number, what in enumerate(REFUSED_BY_THE_DESK)}
    for what, (document, _) in REFUSED_BY_THE_DESK.items():
        alpha.sql(
            "SELECT medusa_market.define_boxes('sums_for_alpha', %s, %s)",
            names[what],
            json.dumps(document | {"name": names[what]}),
            role="job",
        )
        exchanged(alpha, beta)
        sync.settle()
    exchanged(alpha, beta)
    found = states(alpha)
    for what, (_, word) in REFUSED_BY_THE_DESK.items():
        state, reason = found[names[what]]
        assert (state, word in str(reason)) == ("refused", True), (what, reason, beta.told)
        stream = f"alpha__{names[what]}"
        assert not may_read(beta, "alpha", watchers, stream)
        assert beta.connections.catalog.lines(StreamName(stream)) == ()


def test_whether_another_stream_of_the_seller_exists_does_not_show(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    sell(alpha, beta)
    said = []
    for nonce, stream in enumerate(("secret", "absent"), 1):
        box = A_MAP | {"input": stream}
        send(alpha, a_document(name=f"n{nonce}", boxes=[box], output="m"), nonce=nonce)
        exchanged(alpha, beta)
        sync.settle()
        said.append(str(states(beta)[f"n{nonce}"][1]).replace(stream, "it").replace(
            f"n{nonce}", "n"))  # fmt: skip
    assert said[0] == said[1]


@pytest.mark.long(quick=True)
def test_kinds_that_the_contract_does_not_allow_are_refused(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    sell(alpha, beta, boxes="'{filter,map}'")
    define(alpha)
    exchanged(alpha, beta)
    sync.settle()
    state, reason = states(beta)["busy"]
    assert (state, reason) == (
        "refused", "box each is of kind aggregate: contract sums_for_alpha allows filter, map",
    )  # fmt: skip


@pytest.mark.long(quick=True)
def test_without_boxes_in_the_contract_nothing_is_defined(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    sell(alpha, beta, boxes="NULL", load_max="NULL")
    with pytest.raises(MedusaError, match="no contract sums_for_alpha in force lets alpha define"):
        define(alpha)
    send(alpha, a_document())
    exchanged(alpha, beta)
    assert (states(beta), beta.told) == ({}, [])
    (reply,) = replies(beta)
    assert reply.startswith("no contract sums_for_alpha in force lets alpha define boxes")


@pytest.mark.long(quick=True)
def test_a_definition_waits_for_the_round_of_the_seller_from_which_the_contract_is_in_force(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    for party in (alpha, beta):
        party.sql(SELLS.format(boxes="'{filter,map,aggregate}'", load_max="0.5"))
    settle(party.contract_sync for party in (alpha, beta))
    alpha.agreements.open_round(0, "a test")
    define(alpha)
    exchanged(alpha, beta)
    assert (states(beta), beta.told) == ({}, [])
    beta.agreements.open_round(0, "a test")
    exchanged(alpha, beta)
    assert (states(beta), sync.settle()) == ({"busy": ("waiting", None)}, 1)


def test_the_contract_of_another_buyer_is_like_none(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    send(alpha, a_document(contract="for_gamma"))
    exchanged(alpha, beta)
    assert states(beta) == {}
    (reply,) = replies(beta)
    assert reply.startswith("no contract for_gamma in force lets alpha define boxes")


@pytest.mark.long(quick=True)
def test_a_repeated_or_older_message_changes_nothing(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    sell(alpha, beta)
    send(alpha, a_document(), number=5, nonce=1)
    exchanged(alpha, beta)
    sync.settle()
    send(alpha, a_document(), number=5, nonce=2)
    send(alpha, a_document(boxes=[]), number=4, nonce=3)
    send(alpha, a_document(boxes=[A_MAP], output="m"), number=6, nonce=4)
    exchanged(alpha, beta)
    assert states(beta) == {"busy": ("running", None)}
    assert [("older than" in str(e) or "used once" in str(e)) for e in beta.told] == [True] * 3


@pytest.mark.long(quick=True)
def test_a_buyer_has_so_many_definitions_at_a_time(
    alpha: Party, beta: Party, sync: DefinitionSync
) -> None:
    sell(alpha, beta)
    for number in range(9):
        send(alpha, a_document(name=f"n{number}"), nonce=number + 1)
    exchanged(alpha, beta)
    assert len(states(beta)) == 8
    assert ["alpha has 8 definitions here" in one for one in replies(beta)] == [True]
    for number in range(8):
        send(alpha, a_document(name=f"n{number}", boxes=[]), number=2, nonce=100 + number)
        send(alpha, a_document(name=f"m{number}"), nonce=200 + number)
    send(alpha, a_document(name="m0", boxes=[]), number=2, nonce=300)
    send(alpha, a_document(name="k"), nonce=400)
    exchanged(alpha, beta)
    assert "alpha has made 16 definitions within a day" in replies(beta)[-1]
