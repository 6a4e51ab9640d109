"""When the late records of a source are admitted, and which: with the reason, in numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Refused
from medusa_core.late_records import (
    RECORDS_MAX,
    AdmitLate,
    KeepLate,
    LateBucket,
    LateKnowledge,
    decide_late,
)
from medusa_core.line_revisions import RANGES_MAX
from medusa_core.names import StreamName
from medusa_core.network import Filter, Network, Output, Source
from medusa_core.plans import network_document

HOUR_MS = 3_600_000
CALLS = StreamName("calls")


def bucket(at: int, records: int = 1, arrived_ms: int = 0) -> LateBucket:
    return LateBucket(at_us=at, records=records, arrived_ms=arrived_ms)


def known(*buckets: LateBucket, admitted_ms: int | None = None, **said: bool) -> LateKnowledge:
    """What is final and kept are the buckets 10 to 49."""
    return LateKnowledge(
        stream=CALLS, every_us=HOUR_MS * 1_000, from_us=10, through_us=50,
        has_ended=said.get("has_ended", False), admitted_ms=admitted_ms, buckets=buckets,
    )  # fmt: skip


def test_late_records_are_admitted_together_once_the_first_has_waited_for_a_period() -> None:
    waiting = known(bucket(20, 3, arrived_ms=1_000), bucket(30, 2, arrived_ms=5_000))
    kept = decide_late(waiting, HOUR_MS)
    assert kept == KeepLate(
        stream=CALLS, until_ms=HOUR_MS + 1_000,
        because="5 late records of calls to admit in 1 s, once in 3600 s",
    )  # fmt: skip
    assert decide_late(waiting, HOUR_MS + 1_000) == AdmitLate(
        stream=CALLS, buckets=(20, 30), records=5,
        waited="they are admitted once in 3600 s, the first has waited for 3600 s",
    )  # fmt: skip


def test_late_records_are_admitted_once_in_a_period_however_long_they_have_waited() -> None:
    waiting = known(bucket(20), admitted_ms=3 * HOUR_MS)
    kept = decide_late(waiting, 4 * HOUR_MS - 1)
    assert isinstance(kept, KeepLate)
    assert kept.until_ms == 4 * HOUR_MS
    assert isinstance(decide_late(waiting, 4 * HOUR_MS), AdmitLate)


def test_late_records_of_a_source_that_has_ended_are_admitted_at_once() -> None:
    done = decide_late(known(bucket(20, arrived_ms=7), has_ended=True, admitted_ms=7), 7)
    assert isinstance(done, AdmitLate)
    assert done.because == "1 late record of 1 bucket: the source has ended"


def test_late_records_of_open_or_trimmed_buckets_are_not_admitted() -> None:
    others = (bucket(9, 4), bucket(20, 1), bucket(49, 2), bucket(50, 8))
    done = decide_late(known(*others), HOUR_MS)
    assert isinstance(done, AdmitLate)
    assert (done.buckets, done.records) == ((20, 49), 3)
    assert "8 of buckets that are open wait" in done.because
    assert "4 of buckets that are not kept stay in quarantine" in done.because
    kept = decide_late(known(bucket(9), bucket(50)), 9 * HOUR_MS)
    assert isinstance(kept, KeepLate)
    assert kept.until_ms is None
    nothing = replace(known(bucket(20)), from_us=None, through_us=None)
    assert isinstance(decide_late(nothing, 9 * HOUR_MS), KeepLate)


def test_one_revision_admits_so_many_buckets_and_records_at_most() -> None:
    many = replace(
        known(*(bucket(at) for at in range(10, RANGES_MAX + 20))), through_us=RANGES_MAX + 30
    )
    done = decide_late(many, HOUR_MS)
    assert isinstance(done, AdmitLate)
    assert done.buckets == tuple(range(10, RANGES_MAX + 10))
    large = known(bucket(20, RECORDS_MAX - 1), bucket(21), bucket(22))
    done = decide_late(large, HOUR_MS)
    assert isinstance(done, AdmitLate)
    assert (done.buckets, done.records) == ((20, 21), RECORDS_MAX)
    done = decide_late(known(bucket(20, 2 * RECORDS_MAX), bucket(21)), HOUR_MS)
    assert isinstance(done, AdmitLate)
    assert done.buckets == (20,)


# ------------------------------------------------------------ declarations


def a_source(**said: object) -> Source:
    fields = {"name": "calls", "columns": {"at_s": "bigint"}, "time": "at_s", "time_unit": "s"}
    return Source(**{**fields, **said})  # type: ignore[arg-type]


def a_network(source: Source) -> Network:
    return Network(
        name="late", sources=(source,),
        boxes=(Filter(name="some", input="calls", cases={"yes": "at_s > 0"}),),
        outputs=(Output(name="few", input="some"),),
    )  # fmt: skip


def test_a_source_says_how_often_late_records_are_admitted() -> None:
    assert a_source().late_every_us is None
    source = a_source(late="revise", late_every="1h")
    assert source.late_every_us == HOUR_MS * 1_000
    a_network(source)


def test_a_plan_is_the_same_as_before_unless_late_records_revise() -> None:
    (before,) = network_document(a_network(a_source()))["sources"]  # type: ignore[misc]
    assert not {"late", "late_every"} & set(before)
    source = a_source(late="revise", late_every="1h")
    (after,) = network_document(a_network(source))["sources"]  # type: ignore[misc]
    assert (after["late"], after["late_every"]) == ("revise", "1h")


WRONG = {
    "another word": ({"late": "revize"}, "did you mean 'revise'"),
    "no period": ({"late": "revise"}, "such as late_every='1h'"),
    "a period for nothing": ({"late_every": "1h"}, "leave late_every out"),
    "no duration": ({"late": "revise", "late_every": "often"}, "late_every of source 'calls'"),
    "a number": ({"late": "revise", "late_every": 60}, "without a unit"),
    "no time": ({"late": "revise", "late_every": "0s"}, "late_every of source 'calls'"),
    "of another stream": (
        {"late": "revise", "late_every": "1h", "stream": "beta/calls"},
        "leave late out",
    ),
}


@pytest.mark.parametrize(("said", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_declaration_is_refused_in_a_sentence(said: dict[str, object], words: str) -> None:
    with pytest.raises(Refused) as error:
        a_network(a_source(**said))
    assert words in str(error.value)
