"""What streams' contracts ask of replicas: refused where there are too few, weak ones told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.step_costs import Cost
from pipelines.contracts.apply_changes import decide_changes
from pipelines.contracts.federation import Federation
from pipelines.contracts.replicas import RESTART_MS, warnings_of
from tests.contracts.test_replicas import ALL, Read, applied, computes, read, stream
from tests.contracts.writing import NETWORK, TICKS

__all__ = ["read"]

LARGE_FILE = "streams/large.yaml"
SINK = "sinks: [{kind: csv, path: out}]\n"
CASES = {
    "more replicas than participants": (
        {LARGE_FILE: "stream: large\nreplicas: 3\n"},
        ("large.yaml, line 2: replicas is 3, and 2 participants list fragment first, which "
        "computes large (beta and gamma): list it under runs of others, too (there is alpha and "
        "delta), or write replicas: 2"),
    ),
    "two of one": (
        stream("result", "replicas: 2\n"),
        ("result.yaml, line 2: replicas is 2, and 1 participant lists fragment second, which "
        "computes result (delta): list it under runs of others"),
    ),
    "one of two": (
        {LARGE_FILE: "stream: large\nreplicas: 1\n"},
        "line 2: replicas is 1, and 2 participants list fragment first",
    ),
    "no replica": ({LARGE_FILE: "stream: large\nreplicas: 0\n"}, "line 2: replicas is 0: write a"),
    "replicas below 0": ({LARGE_FILE: "stream: large\nreplicas: -1\n"}, "replicas is -1: write a"),
    "replicas in words": (
        {LARGE_FILE: "stream: large\nreplicas: two\n"}, "replicas is 'two': write a whole number"
    ),
    "replicas that are true": ({LARGE_FILE: "stream: large\nreplicas: true\n"}, "is true: write a"),
    "half a replica": ({LARGE_FILE: "stream: large\nreplicas: 1.5\n"}, "replicas is 1.5: write a"),
    "replicas as a list": ({LARGE_FILE: "stream: large\nreplicas: [2]\n"}, "is a list: write a"),
    "a huge number": (
        {LARGE_FILE: "stream: large\nreplicas: 999999999999999999\n"},
        "replicas is 999999999999999999, and 2 participants list",
    ),
    "a number beyond all bounds": (
        {LARGE_FILE: f"stream: large\nverify: {'9' * 40}\n"}, "verify is '9999"
    ),
    "nobody verifies": ({LARGE_FILE: "stream: large\nverify: 0\n"}, "line 2: verify is 0: write a"),
    "three of two": (
        {LARGE_FILE: "stream: large\nverify: 3\n"},
        ("line 2: verify is 3, and 2 participants can agree on large (beta and gamma): write a "
        "number from 1 to 2, or list fragment first under runs of more"),
    ),
    "a source with replicas": (
        {"streams/ticks.yaml": TICKS + "replicas: 2\n"},
        ("ticks.yaml, line 5: replicas is declared for ticks, which is a source: one participant "
        "lands it (alpha)"),
    ),
    "a source that is verified": (
        {"streams/ticks.yaml": TICKS + "verify: 1\n"}, "line 5: verify is declared for ticks, which"
    ),
    "one participant twice": (
        computes("gamma", "first, first"), "runs[0].fragments[1] names first again: keep one"
    ),
    "a sink of nobody's": (
        {LARGE_FILE: f"stream: large\n{SINK}"},
        ("line 2: sinks[0] delivers large, which beta and gamma compute: name the one of beta, "
        "delta and gamma that delivers it, such as participant: "),
    ),
    "a sink of what is not verified": (
        {LARGE_FILE: "stream: large\nverify: 2\n" + SINK.replace("}", ", participant: beta}")},
        ("participant is beta, which does not compare large with what others compute, and its "
        "contract says verify: 2: name one of delta"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "says"), CASES.values(), ids=CASES)
def test_what_cannot_be_asked_of_replicas_is_refused_with_its_place_and_figures(
    files: dict[str, str], says: str, read: Read
) -> None:
    with pytest.raises(Refused) as refused:
        read(files)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_as_many_replicas_as_are_asked_for_or_more_will_do(read: Read) -> None:
    for text in ("replicas: 2\n", "replicas: 2\nverify: 2\n", "verify: 1\n", ""):
        (network,) = read(stream("large", text), computes("epsilon")).networks
        assert network.owners["mine/first"] == ("beta", "epsilon", "gamma")
    assert read(stream("result", "replicas: 1\nverify: 1\n")).networks


def test_late_records_are_not_admitted_by_themselves_where_a_stream_has_several_producers(
    read: Read,
) -> None:
    """A home that reads `large` of beta and gamma would stop at the first revision of one of them.
    No home here reads `result`; one of other contracts may."""
    revising = NETWORK.replace('time="ts_us"', 'time="ts_us", late="revise", late_every="1h"')
    sentence = (
        "source ticks of network mine has late='revise', and beta and gamma compute large from it: "
        "a home that reads a stream of several producers, now or later, does not follow their "
        "revisions, so such a stream has none; write "
        "late='quarantine', or list fragment mine/first under runs of one participant"
    )
    with pytest.raises(Refused) as refused:
        read({"mine.py": revising})
    assert str(refused.value) == sentence
    behind = computes("beta") | computes("gamma", "second") | computes("delta", "second")
    with pytest.raises(Refused, match="delta and gamma compute result from it"):
        read({"mine.py": revising}, behind)
    one_each = computes("beta") | {"participants/gamma.yaml": "participant: gamma\n"}
    assert read({"mine.py": revising}, one_each).networks


def test_a_sink_of_several_producers_goes_where_it_is_named_for(read: Read) -> None:
    named = SINK.replace("}", ", participant: {name}}")
    for name, verify in (("beta", ""), ("delta", "verify: 2\n")):
        homes = applied(read(stream("large", verify + named.replace("{name}", name))), ALL)
        assert [home for home, its in homes.items() if its.sinks] == [name]


def warned(federation: Federation) -> list[str]:
    streams = list(federation.streams.values())
    return list(warnings_of(federation.networks, streams, sorted(ALL)))


def test_a_bound_that_one_participant_cannot_keep_through_a_crash_is_warned_of(read: Read) -> None:
    bound = stream("result", "bound: 10s\n")
    (told,) = warned(read(bound))
    assert told == (
        "stream result is promised within 10 s, and delta, which alone computes it, takes "
        "about 11 s to come back after a crash: list fragment second under runs of a second "
        "participant, and write replicas: 2"
    )
    assert not warned(read(bound, computes("gamma", "first, second")))
    assert not warned(read(stream("result", f"bound: {RESTART_MS}ms\n")))
    assert not warned(read(stream("large", "bound: 10s\n")))


def test_what_nobody_reads_is_verified_by_nobody_and_that_is_told(read: Read) -> None:
    both = computes("gamma", "first, second") | computes("delta", "second")
    (told,) = warned(read(both, stream("result", "verify: 2\n")))
    assert told.startswith("verify: 2 of result has no effect")
    assert not warned(read(stream("large", "verify: 2\n")))


@pytest.mark.parametrize("slow", ["beta", "gamma"])
def test_a_bound_must_leave_time_for_the_slowest_replica(slow: str, read: Read) -> None:
    promised = read(stream("result", "bound: 10s\n"))
    homes = applied(promised, ALL)
    quick = {"mine/first": Cost(step_ms=1_000)}
    costs = {name: replace(home, costs=quick) for name, home in homes.items()}
    assert decide_changes(promised, costs, None)
    costs[Participant(slow)] = replace(
        homes[Participant(slow)], costs={"mine/first": Cost(step_ms=5_000)}
    )
    with pytest.raises(Refused, match="2 x 5100 ms, what its path costs"):
        decide_changes(promised, costs, None)
