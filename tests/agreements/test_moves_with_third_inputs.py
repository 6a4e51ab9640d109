"""A fragment moves that reads streams of a third participant, and of the provider itself.

Alpha pays, beta provides; `seen` is landed by alpha, `heard` by gamma, `felt` by beta. The provider
reads what its contract names and what the payer may read, and nothing else of what it could read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medusa_core.commits import Cause, Commit, LeaseKey, OutputSegment
from medusa_core.errors import Refused
from medusa_core.exchange import import_fragment
from medusa_core.fragments import Move, moved_fragment
from medusa_core.grid import Range
from medusa_core.market.moves import MoveState
from medusa_core.names import FIRST_EPOCH, Participant, StreamName
from medusa_core.network import Aggregate, Network, Output, Source, Union
from medusa_core.segments import Producer, Stability
from pipelines.catalog.records import Assignment, Deployment
from pipelines.language.check import check_network, fragments_for
from pipelines.market.moves.move_order import document_of_order
from pipelines.market.moves.move_sync import LineMarks, MoveSync
from pipelines.market.moves.moved_deployments import order_of
from pipelines.participant.trimming import needs_here
from pipelines.spark.deployment import deployment_of, plan_of
from tests.agreements.building import ALPHA, BETA, DAY_MS, GAMMA, Party
from tests.agreements.homes import Watchers
from tests.agreements.test_moves import LENDS, exchanged, may_read, moves, send, state, states

WIDTH_US = 10_000_000
FRAGMENT = "three/main"
MOVED = moved_fragment(FRAGMENT, Move(ALPHA, 1))
COLUMNS = {"at_us": "bigint", "host": "string"}
LANDING = {"seen": ALPHA, "heard": GAMMA, "felt": BETA}
SEEN, HEARD, FELT = map(StreamName, LANDING)
THREE = Network(
    name="three",
    sources=tuple(Source(name=name, columns=COLUMNS, time="at_us") for name in LANDING),
    boxes=(
        Union(name="all", inputs=tuple(LANDING)),
        Aggregate(name="each", input="all", size="10s", group_by=("host",),
                  columns={"n": "count(*)"}),
    ),
    outputs=(Output(name="counted", input="each"),),
)  # fmt: skip
READS_HEARD = "'{gamma/heard}'"


def lend(alpha: Party, beta: Party, reads: str = READS_HEARD) -> None:
    """The contract under which fragment main moves, with its `reads` as SQL."""
    for party in (alpha, beta):
        party.sql(LENDS.format(fragments="'{main}'"))
        party.sql(f"UPDATE medusa_api.contract SET reads = {reads}")
    exchanged(alpha, beta)
    for party in (alpha, beta):
        party.agreements.open_round(0, "a test")


def grant(party: Party, stream: str, to: str = "alpha") -> None:
    party.sql("SELECT medusa_api.grant_stream(%s, %s)", stream, to)


def lands(party: Party, stream: str, folder: Path, by: Participant) -> None:
    """A network of the participant's own has the stream as its source."""
    source = Source(name=stream, columns=COLUMNS, time="at_us")
    network = Network(name=f"{stream}_here", sources=(source,), boxes=(), outputs=())
    checked = check_network(network)
    plan = plan_of(network, checked, WIDTH_US, folder)
    deployed = deployment_of(plan, checked, fragments_for(checked), Producer(by))
    imports = () if by == party.name else (stream,)
    party.connections.catalog.deploy(importing(deployed, party.name, *imports))


def importing(deployment: Deployment, here: Participant, *streams: str) -> Deployment:
    """With imports of these streams, as `medusa apply` deploys them."""
    imports = [import_fragment(StreamName(name)) for name in streams]
    assigned = [
        Assignment(fragment=name, producer=Producer(here), epoch=FIRST_EPOCH, plan=deployment.plan)
        for name in imports
    ]
    return replace(
        deployment,
        fragments={**deployment.fragments, **dict.fromkeys(imports, ((), ()))},
        assignments=(*deployment.assignments, *assigned),
    )


def three(folder: Path, *others: str) -> Deployment:
    """Alpha computes the network; it lands what the `others` do not."""
    checked = check_network(THREE)
    plan = plan_of(THREE, checked, WIDTH_US, folder)
    deployment = deployment_of(plan, checked, fragments_for(checked), Producer(ALPHA))
    landed = {f"landing/{name}": LANDING[name] for name in others}
    assignments = tuple(
        replace(a, producer=Producer(landed.get(a.fragment, ALPHA))) for a in deployment.assignments
    )
    return importing(replace(deployment, assignments=assignments), ALPHA, *others)


def sync_of(party: Party, folder: Path, marks: LineMarks = lambda partner: None) -> MoveSync:
    catalog = party.connections.catalog
    return MoveSync(moves(party), catalog, catalog, folder, party.told.append, marks)


def publishes(*streams: str) -> LineMarks:
    """What every partner says that it publishes to this home."""
    return lambda partner: {(StreamName(name), 0): "1" for name in streams}


def computed(party: Party, folder: Path, *others: str) -> None:
    """Alpha computes the network, and has three buckets of the output."""
    deployment = three(folder, *others)
    catalog = party.connections.catalog
    catalog.deploy(deployment)
    key = LeaseKey(fragment=FRAGMENT, producer=Producer(ALPHA))
    lease = catalog.acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)
    segment = OutputSegment(
        stream=StreamName("counted"), range=Range(0, 3 * WIDTH_US), stability=Stability.STABLE
    )
    commit = Commit(lease=lease, plan=deployment.plan, cause=Cause.NORMAL, segments=(segment,))
    catalog.commit(commit)


def begin(alpha: Party) -> None:
    order = order_of(alpha.connections.catalog, FRAGMENT, 1)
    moves(alpha).begin("load_of_alpha", 1, FRAGMENT, document_of_order(order), "a test")


def started(alpha: Party, beta: Party, folder: Path) -> None:
    begin(alpha)
    sync_of(alpha, folder).settle()
    exchanged(alpha, beta)
    sync_of(beta, folder).settle()
    exchanged(alpha, beta)
    sync_of(alpha, folder).settle()


def imported(party: Party) -> Mapping[str, Collection[Participant]]:
    found: dict[str, set[Participant]] = {}
    for status in party.connections.catalog.imports():
        found.setdefault(status.stream, set()).add(status.producer.participant)
    return found


def test_a_provider_reads_a_third_participants_stream_at_its_origin(
    alpha: Party, beta: Party, tmp_path: Path, watchers: Watchers
) -> None:
    lend(alpha, beta)
    computed(alpha, tmp_path, "heard")
    started(alpha, beta, tmp_path)
    assert (state(alpha), state(beta)) == (MoveState.STARTED, MoveState.STARTED)
    assert imported(beta) == {"seen": {ALPHA}, "heard": {GAMMA}, "felt": {ALPHA}}
    assert [a.producer for a in beta.connections.catalog.assignments()
            if a.fragment == "gamma/heard"] == [Producer(GAMMA)]  # fmt: skip
    # The payer relays nothing, and holds nothing in the name of the provider that it does not give.
    assert may_read(alpha, "beta", "seen", watchers, ALPHA)
    assert not may_read(alpha, "beta", "heard", watchers, ALPHA)
    assert [h.holder for h in alpha.connections.catalog.holds(SEEN)] == [BETA]
    assert alpha.connections.catalog.holds(HEARD) == ()


def test_a_payer_goes_on_importing_what_the_fragment_reads_and_keeps_it(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    lend(alpha, beta)
    computed(alpha, tmp_path, "heard")
    started(alpha, beta, tmp_path)
    catalog = alpha.connections.catalog
    assert imported(alpha) == {"heard": {GAMMA}, "counted": {BETA}}
    assert needs_here(catalog)[HEARD][FRAGMENT] == 3 * WIDTH_US
    assert needs_here(beta.connections.catalog)[HEARD] == {MOVED: 3 * WIDTH_US}
    assert moves(alpha).end(FRAGMENT, "enough")
    exchanged(alpha, beta)
    for party in (alpha, beta):
        sync_of(party, tmp_path).settle()
    assert imported(alpha) == {"heard": {GAMMA}}
    assert imported(beta) == {}, "what the move alone read is imported no more"


@pytest.mark.parametrize("reads", ["NULL", "'{gamma/other}'"])
def test_a_payer_has_nothing_read_for_it_that_the_contract_does_not_name(
    alpha: Party, beta: Party, tmp_path: Path, reads: str
) -> None:
    """Beta may read `heard` at gamma; alpha may not, and orders a copy of it."""
    lend(alpha, beta, reads)
    computed(alpha, tmp_path, "heard")
    begin(alpha)
    exchanged(alpha, beta)
    sync_of(beta, tmp_path).settle()
    found, reason = states(beta)[1]
    assert found is MoveState.ENDED
    assert "does not let beta read gamma/heard for alpha: agree on it under reads" in reason
    assert beta.connections.catalog.lines() == ()
    exchanged(alpha, beta)
    assert states(alpha)[1] == (MoveState.ENDED, reason)


def test_a_move_ends_when_the_contract_does_not_name_its_inputs_any_more(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    lend(alpha, beta)
    computed(alpha, tmp_path, "heard")
    started(alpha, beta, tmp_path)
    for party in (alpha, beta):
        party.sql("UPDATE medusa_api.contract SET reads = '{gamma/other}'")
    exchanged(alpha, beta)
    assert sync_of(beta, tmp_path).settle() == 0, "it is agreed, and not in force yet"
    for party in (alpha, beta):
        party.agreements.open_round(1, "a test")
    assert sync_of(beta, tmp_path).settle() == 1
    assert state(beta) is MoveState.ENDED
    sync_of(beta, tmp_path).settle()
    assert imported(beta) == {}


def test_a_provider_uses_its_own_stream_where_the_payer_may_read_it(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    lend(alpha, beta, "NULL")
    lands(beta, "felt", tmp_path, BETA)
    grant(beta, "felt")
    computed(alpha, tmp_path, "felt")
    started(alpha, beta, tmp_path)
    assert (state(alpha), state(beta)) == (MoveState.STARTED, MoveState.STARTED)
    assert imported(beta) == {"seen": {ALPHA}, "heard": {ALPHA}}
    assert needs_here(beta.connections.catalog)[FELT] == {MOVED: 3 * WIDTH_US}
    beta.sql("SELECT medusa_api.withdraw_stream('felt', 'alpha')")
    assert sync_of(beta, tmp_path).settle() == 1
    found, reason = states(beta)[1]
    assert found is MoveState.ENDED
    assert "alpha may not read stream felt of beta" in reason
    exchanged(alpha, beta)
    assert states(alpha)[1] == (MoveState.ENDED, reason)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_payer_does_not_learn_which_streams_a_provider_has(
    alpha: Party, beta: Party, tmp_path: Path, is_there: bool
) -> None:
    lend(alpha, beta, "NULL")
    if is_there:
        lands(beta, "felt", tmp_path, BETA)
    computed(alpha, tmp_path, "felt")
    begin(alpha)
    exchanged(alpha, beta)
    sync_of(beta, tmp_path).settle()
    assert states(beta)[1] == (
        MoveState.ENDED,
        "alpha may not read stream felt of beta, which the fragment reads: ask beta to grant it",
    )


def test_a_grant_of_a_copy_is_no_grant_of_the_stream(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    """Beta imports `heard` and lists alpha among its readers: what it lands itself it may use."""
    lend(alpha, beta)
    lands(beta, "heard", tmp_path, GAMMA)
    grant(beta, "heard")
    computed(alpha, tmp_path, "heard")
    fields = json.loads(document_of_order(order_of(alpha.connections.catalog, FRAGMENT, 1)))
    (heard,) = [one for one in fields["inputs"] if one["stream"] == "heard"]
    heard["participant"] = "beta"
    send(alpha, 1, fragment=FRAGMENT, order=json.dumps(fields))
    beta.contract_sync.tick()
    sync_of(beta, tmp_path).settle()
    assert "alpha may not read stream heard of beta" in states(beta)[1][1]


def test_what_a_provider_imports_already_is_not_imported_twice(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    lend(alpha, beta)
    lands(beta, "heard", tmp_path, GAMMA)
    before = beta.connections.catalog.assignments()
    computed(alpha, tmp_path, "heard")
    started(alpha, beta, tmp_path)
    assert state(beta) is MoveState.STARTED
    after = beta.connections.catalog.assignments()
    assert set(before) < set(after)
    assert "gamma/heard" not in {a.fragment for a in after}
    assert imported(beta)["heard"] == {GAMMA}
    moves(alpha).end(FRAGMENT, "enough")
    exchanged(alpha, beta)
    sync_of(beta, tmp_path).settle()
    assert "heard" not in imported(beta), "nothing here reads it"


def test_a_stream_of_another_origin_is_not_taken_for_the_one_that_is_meant(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    lend(alpha, beta)
    lands(beta, "heard", tmp_path, BETA)
    computed(alpha, tmp_path, "heard")
    begin(alpha)
    exchanged(alpha, beta)
    sync_of(beta, tmp_path).settle()
    assert "a network or stream of a name that fragment three/main uses" in states(beta)[1][1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"columns": [["at_us", "bigint"], ["host", "int"]]}, "another shape than its plan"),
        ({"key": ["host"]}, "another shape than this home has"),
        ({"replica": 1}, "an input that a replica computes"),
        ({"participant": "delta"}, "does not let beta read delta/heard for alpha"),
    ],
)
def test_an_order_describes_a_third_participants_stream_as_the_provider_has_it(
    alpha: Party, beta: Party, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    lend(alpha, beta)
    lands(beta, "heard", tmp_path, GAMMA)
    computed(alpha, tmp_path, "heard")
    fields = json.loads(document_of_order(order_of(alpha.connections.catalog, FRAGMENT, 1)))
    (heard,) = [one for one in fields["inputs"] if one["stream"] == "heard"]
    heard |= changes
    send(alpha, 1, fragment=FRAGMENT, order=json.dumps(fields))
    beta.contract_sync.tick()
    sync_of(beta, tmp_path).settle()
    found, reason = states(beta)[1]
    assert found is MoveState.ENDED
    assert why in reason


def test_a_payer_ends_a_move_whose_inputs_it_may_not_read_any_more(
    alpha: Party, beta: Party, tmp_path: Path
) -> None:
    lend(alpha, beta)
    computed(alpha, tmp_path, "heard")
    started(alpha, beta, tmp_path)
    assert sync_of(alpha, tmp_path, publishes("heard")).settle() == 0
    assert sync_of(alpha, tmp_path, publishes("other")).settle() == 1
    found, reason = states(alpha)[1]
    assert found is MoveState.ENDED
    assert reason == "gamma does not let alpha read heard: ask its operator to grant it"
    exchanged(alpha, beta)
    assert states(beta)[1] == (MoveState.ENDED, reason)


def test_a_provider_ends_a_move_whose_inputs_the_origin_does_not_publish_to_it(
    alpha: Party, beta: Party, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(alpha, beta)
    computed(alpha, tmp_path, "heard")
    started(alpha, beta, tmp_path)
    refused = sync_of(beta, tmp_path, publishes())
    assert refused.settle() == 0, "the grant may be newer than what was heard of the origin"
    monkeypatch.setattr("pipelines.market.moves.move_sync.GRANTS_KNOWN_MS", 0)
    assert sync_of(beta, tmp_path, publishes("heard")).settle() == 0
    assert refused.settle() == 1
    exchanged(alpha, beta)
    reason = "gamma does not let beta read heard: ask its operator to grant it"
    assert states(alpha)[1] == states(beta)[1] == (MoveState.ENDED, reason)


def test_a_fragment_that_reads_a_stream_of_several_producers_does_not_move(
    alpha: Party, tmp_path: Path
) -> None:
    computed(alpha, tmp_path, "heard")
    catalog = alpha.connections.catalog
    deployment = three(tmp_path, "heard")
    (landing,) = [a for a in deployment.assignments if a.fragment == "landing/heard"]
    second = replace(landing, producer=Producer(BETA, 1), partition=1)
    catalog.deploy(replace(deployment, assignments=(second,)))
    with pytest.raises(Refused, match="reads heard, which several producers compute"):
        order_of(catalog, FRAGMENT, 1)


def test_fragments_are_movable_with_what_they_read_of_others(alpha: Party, tmp_path: Path) -> None:
    computed(alpha, tmp_path, "heard", "felt")
    found = sync_of(alpha, tmp_path).movable([FRAGMENT, "landing/seen", "other/main"])
    assert found == {FRAGMENT: {"gamma/heard", "beta/felt"}}
