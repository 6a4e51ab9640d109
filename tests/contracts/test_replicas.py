"""Several participants compute one fragment: who is which replica, and what each home is told."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Conflict, Refused
from medusa_core.names import Participant, StreamName
from pipelines.contracts.apply_changes import HomeChanges, decide_changes
from pipelines.contracts.assignments import PlanStart
from pipelines.contracts.federation import Federation, read_federation
from pipelines.contracts.home_snapshot import HomeSnapshot
from pipelines.exchange.first_holds import first_holds
from tests.contracts.writing import (
    COMPUTES,
    NETWORK,
    REPLICATED,
    brought_in,
    nothing,
    reached,
    trimmed,
    write_contracts,
)
from tests.sweeps import examples

SECOND = 1_000_000
A, B, C, D = (Participant(name) for name in ("alpha", "beta", "gamma", "delta"))
ALL = nothing(A, B, C, D)
LARGE = StreamName("large")
CHANGED = NETWORK.replace("n > 1", "n > 2")
GAMMA = "participants/gamma.yaml"
ONLY_BETA = {**REPLICATED, GAMMA: "participant: gamma\n"}
Homes = Mapping[Participant, HomeSnapshot]
Read = Callable[..., Federation]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads the replicated contracts with some files of another content."""

    def reading(*changed: Mapping[str, str]) -> Federation:
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        return read_federation(write_contracts(tmp_path / "c", merged(*changed)), tmp_path)

    return reading


def merged(*changed: Mapping[str, str]) -> dict[str, str]:
    files = dict(REPLICATED)
    for more in changed:
        files |= more
    return files


def computes(name: str, fragments: str = "first") -> dict[str, str]:
    return {f"participants/{name}.yaml": COMPUTES.format(name=name, fragments=fragments)}


def stream(name: str, more: str) -> dict[str, str]:
    return {f"streams/{name}.yaml": f"stream: {name}\n{more}"}


def applied(federation: Federation, homes: Homes, asked: PlanStart | None = None) -> Homes:
    decided = decide_changes(federation, homes, asked)
    return {d.participant: brought_in(homes[d.participant], d) for d in decided}


def log(home: HomeSnapshot, fragment: str) -> list[tuple[int, str, int | None]]:
    return [(line.epoch, str(line.producer), line.from_us) for line in home.log[fragment]]


def details(decided: Sequence[HomeChanges], what: str, name: str) -> list[tuple[str, str, str]]:
    return [
        (home.participant, change.mark.value, change.detail)
        for home in decided
        for change in home.changes
        if (change.what, change.name) == (what, name)
    ]


def test_replicas_are_numbered_by_name_in_a_log_that_is_the_same_in_every_home(read: Read) -> None:
    homes = applied(read(), ALL)
    for name in (B, C, D):
        assert log(homes[name], "mine/first") == [(1, "beta/0", None), (2, "gamma/1", None)]
    assert "mine/first" not in homes[A].log, "who lands knows nobody behind"
    assert log(homes[A], "landing/ticks") == [(1, "alpha/0", None)]
    assert all(home.is_same for home in decide_changes(read(), homes, None))


def test_who_reads_several_producers_has_a_line_of_what_it_chose(read: Read) -> None:
    homes = applied(read(), ALL)
    assert log(homes[D], "import/large") == [(1, "delta/import", None)]
    assert homes[D].fragments["import/large"].outputs == (LARGE,)
    assert {str(line.producer) for line in homes[D].lines if line.stream == LARGE} == {
        "beta/0", "gamma/1", "delta/import"
    }  # fmt: skip
    for name in (B, C):
        assert "import/large" not in homes[name].log, "nothing here reads it"
        assert log(homes[name], "import/ticks") == [(1, f"{name}/0", None)], "it has one producer"
        assert homes[name].fragments["import/ticks"].outputs == ()


def test_who_computes_a_stream_and_reads_it_chooses_too(read: Read) -> None:
    both = read(
        computes("gamma", "first, second"), {"participants/delta.yaml": "participant: delta\n"}
    )
    homes = applied(both, ALL)
    assert log(homes[C], "import/large") == [(1, "gamma/import", None)]
    assert {str(line.producer) for line in homes[C].lines if line.stream == LARGE} == {
        "beta/0", "gamma/1", "gamma/import"
    }  # fmt: skip
    assert not homes[D].log


def test_what_each_replica_writes_is_held_for_each_of_its_readers(read: Read) -> None:
    (network,) = read(computes("gamma", "first, second")).networks
    holds = first_holds(network.wiring, network.owners)
    assert {writer: [(h.stream, h.holder) for h in its] for writer, its in holds.items()} == {
        A: [("ticks", "beta"), ("ticks", "gamma")],
        B: [("large", "delta"), ("large", "gamma")],
        C: [("large", "delta")],
    }


def test_a_new_plan_is_a_line_of_each_replica_from_the_same_bucket(read: Read) -> None:
    homes = applied(read(), ALL)
    homes = {**homes, A: reached(homes[A], "ticks", 40 * SECOND)}
    after = applied(read({"mine.py": CHANGED}), homes, PlanStart(50 * SECOND))
    assert log(after[D], "mine/first") == [
        (1, "beta/0", None), (2, "gamma/1", None),
        (3, "beta/0", 50 * SECOND), (4, "gamma/1", 50 * SECOND),
    ]  # fmt: skip
    assert log(after[D], "import/large")[-1] == (2, "delta/import", 50 * SECOND)
    for home in (B, C):
        assert after[home].log["mine/first"] == after[D].log["mine/first"]


def test_a_replica_that_comes_late_gets_the_next_number_and_a_line_of_every_plan(
    read: Read,
) -> None:
    homes = applied(read(ONLY_BETA), ALL)
    assert log(homes[D], "import/large") == [(1, "delta/0", None)]
    homes = {**homes, A: reached(homes[A], "ticks", 40 * SECOND)}
    homes = applied(read(ONLY_BETA, {"mine.py": CHANGED}), homes, PlanStart(50 * SECOND))
    more = read(ONLY_BETA, {"mine.py": CHANGED}, computes("aaron"))
    homes = applied(more, {**homes, Participant("aaron"): HomeSnapshot()})
    whole = [
        (1, "beta/0", None), (2, "beta/0", 50 * SECOND),
        (3, "aaron/1", None), (4, "aaron/1", 50 * SECOND),
    ]  # fmt: skip
    for name in (B, D, Participant("aaron")):
        assert log(homes[name], "mine/first") == whole
    assert log(homes[D], "import/large") == [
        (1, "delta/0", None), (2, "delta/0", 50 * SECOND),
        (3, "delta/import", None), (4, "delta/import", 50 * SECOND),
    ]  # fmt: skip
    assert all(home.is_same for home in decide_changes(more, homes, None))


def test_a_home_brought_in_alone_numbers_as_the_others_do(read: Read) -> None:
    homes: Homes = {**applied(read(ONLY_BETA), ALL), Participant("aaron"): HomeSnapshot()}
    more = read(ONLY_BETA, computes("aaron"))
    whole = applied(more, homes)
    for name in ("aaron", "delta", "beta", "alpha", "gamma"):
        (alone,) = decide_changes(more, homes, None, [Participant(name)])
        assert alone.participant == name
        homes = {**homes, alone.participant: brought_in(homes[alone.participant], alone)}
    assert homes == whole


def test_a_replica_cannot_come_where_no_producer_has_the_beginning_of_its_input(
    read: Read,
) -> None:
    homes = applied(read(ONLY_BETA), ALL)
    alpha = trimmed(reached(homes[A], "ticks", 40 * SECOND), "ticks", 20 * SECOND)
    with pytest.raises(Refused) as refused:
        decide_changes(read(), {**homes, A: alpha}, None)
    assert str(refused.value) == (
        "fragment mine/first of gamma reads stream ticks from its first bucket on, and alpha "
        "keeps it from 1970-01-01T00:00:20Z on: a replica computes everything from the "
        "first bucket on, so gamma can be none; leave the fragment to beta, or give the network "
        "and its streams other names"
    )
    assert decide_changes(read(ONLY_BETA), {**homes, A: alpha}, None), "beta has read it"


def test_a_replica_may_come_while_one_producer_of_its_input_has_the_beginning(read: Read) -> None:
    homes = applied(read(), ALL)
    for name in (B, C):
        homes = {**homes, name: reached(homes[name], "large", 40 * SECOND)}
    more = read(computes("epsilon", "second"))
    one = {
        **homes,
        B: trimmed(homes[B], "large", 20 * SECOND),
        Participant("epsilon"): HomeSnapshot(),
    }
    assert log(applied(more, one)[D], "mine/second") == [
        (1, "delta/0", None), (2, "epsilon/1", None)
    ]  # fmt: skip
    both = {**one, C: trimmed(homes[C], "large", 30 * SECOND)}
    with pytest.raises(Refused, match=r"beta and gamma keep it from 1970-01-01T00:00:20Z"):
        decide_changes(more, both, None)


@pytest.mark.parametrize(
    "files",
    [
        {GAMMA: "participant: gamma\n"},
        {GAMMA: "participant: gamma\n", **computes("delta", "first, second")},
    ],
    ids=["taken away", "moved"],
)
def test_a_replica_stays_where_it_is(files: Mapping[str, str], read: Read) -> None:
    homes = applied(read(), ALL)
    for chosen in ([B], [C], [D], list(ALL)):
        with pytest.raises(Refused, match="cannot be changed in place"):
            decide_changes(read(files), {name: homes[name] for name in chosen}, None)


def test_homes_that_number_replicas_differently_are_a_conflict(read: Read) -> None:
    homes = applied(read(), ALL)
    first, second = homes[C].log["mine/first"]
    other = (replace(first, producer=second.producer), replace(second, producer=first.producer))
    stood = {**homes, C: replace(homes[C], log={**homes[C].log, "mine/first": other})}
    with pytest.raises(Conflict, match=r"disagree about fragment mine/first.*replica 1"):
        decide_changes(read(), stood, None)


@cache
def stages() -> tuple[tuple[Federation, PlanStart | None], ...]:
    """Contracts one after the other: one replica, a second, another plan, and a third."""
    with TemporaryDirectory() as folder:
        files = [
            merged(ONLY_BETA),
            merged(),
            merged({"mine.py": CHANGED}),
            merged({"mine.py": CHANGED}, computes("aaron"), computes("beta", "first, second")),
        ]
        asked = [None, None, PlanStart(50 * SECOND), None]
        return tuple(
            (read_federation(write_contracts(Path(folder) / str(at), its), Path(folder)), when)
            for at, (its, when) in enumerate(zip(files, asked, strict=True))
        )


NAMES = [*ALL, Participant("aaron")]
CUTS = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 4)), max_size=5), max_size=3
)


@pytest.mark.sweep
@settings(max_examples=examples(10, 60), deadline=None)
@given(cuts=st.tuples(CUTS, CUTS, CUTS, CUTS))
def test_runs_cut_short_in_any_order_end_in_the_same_logs(
    cuts: tuple[list[list[tuple[Participant, int]]], ...],
) -> None:
    homes: dict[Participant, HomeSnapshot] = dict.fromkeys(NAMES, HomeSnapshot())
    whole: Homes = homes
    for (federation, asked), runs in zip(stages(), cuts, strict=True):
        for run in runs:
            decided = {d.participant: d for d in decide_changes(federation, homes, asked)}
            for name, deployments in run:
                its = decided.pop(name, None)
                if its is not None:
                    short = replace(its, deployments=its.deployments[:deployments])
                    homes[name] = brought_in(homes[name], short)
        homes, whole = dict(applied(federation, homes, asked)), applied(federation, whole, asked)
        assert {n: h.log for n, h in homes.items()} == {n: h.log for n, h in whole.items()}
        assert all(home.is_same for home in decide_changes(federation, homes, None))
        homes[A], whole = (
            reached(homes[A], "ticks", 40 * SECOND),
            {**whole, A: reached(whole[A], "ticks", 40 * SECOND)},
        )


def test_the_plan_says_in_words_who_computes_what_is_chosen_and_who_must_agree(read: Read) -> None:
    before = applied(read(ONLY_BETA), ALL)
    decided = decide_changes(read(stream("large", "replicas: 2\nverify: 2\n")), before, None)
    assert details(decided, "fragment", "mine/first") == [
        ("beta", "~", "gamma joins beta as replica 1, epoch 2"),
        ("delta", "~", "gamma joins beta as replica 1, epoch 2"),
        ("gamma", "+", "by beta and gamma (replicas 0 and 1), epoch 2"),
    ]
    assert details(decided, "fragment", "import/large") == [
        ("delta", "~", "chosen among beta and gamma, epoch 2")
    ]
    assert details(decided, "verify", "large") == [("delta", "+", "2 of 2 producers must agree")]
    assert details(decided, "fragment", "mine/second") == [("delta", "=", "by delta, epoch 1")]


def test_how_many_must_agree_is_told_to_those_who_choose(read: Read) -> None:
    two, one = read(stream("large", "verify: 2\n")), read(stream("large", "verify: 1\n"))
    homes = applied(two, ALL)
    assert {name: dict(home.verified) for name, home in homes.items()} == {
        A: {}, B: {}, C: {}, D: {LARGE: 2}
    }  # fmt: skip
    assert details(decide_changes(two, homes, None), "verify", "large") == [
        ("delta", "=", "2 of 2 producers must agree")
    ]
    fewer = decide_changes(one, homes, None)
    assert details(fewer, "verify", "large") == [("delta", "~", "2 -> 1 of 2 producers must agree")]
    assert not any(home.deployments for home in fewer)
    homes = applied(one, homes)
    assert not homes[D].verified
    assert not details(decide_changes(read(), homes, None), "verify", "large")
