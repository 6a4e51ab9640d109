"""Plans, commits and segments: what makes two of them the same, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from medusa_core.certificates import Certificate, Suite
from medusa_core.columns import Column, declare_columns
from medusa_core.commits import (
    Cause,
    Commit,
    LandedBatch,
    Lease,
    LeaseKey,
    OutputSegment,
    QuarantinedRecord,
    StepMetrics,
    joined_commit,
)
from medusa_core.digest import EMPTY, Digest
from medusa_core.errors import Refused
from medusa_core.exchange import import_fragment
from medusa_core.frozen import FrozenMap
from medusa_core.grid import FOREVER_US
from medusa_core.imports import is_import_of
from medusa_core.market.term_rules import AMOUNT, AMOUNT_OR_ZERO, MONEY_MAX
from medusa_core.market.terms import checked_revision
from medusa_core.names import Epoch, PlanId, StreamName, Version, check_name
from medusa_core.network import Network
from medusa_core.plans import Plan
from medusa_core.recalls import GENERATION_MAX, LineRecall, check_recalls
from medusa_core.segments import IMPORT, Producer, Read, SegmentFile, Stability, digest_over
from tests.core.builders import ALPHA, PLAN, READINGS, TOTALS, a_network, a_segment, seconds

FILE = SegmentFile(path="totals/a.parquet", size_bytes=10, sha256="0" * 64, rows=1)
ONE_ROW = {0: Digest(1, 1, 1)}


def a_plan(**changes: Any) -> Plan:
    values: dict[str, Any] = {
        "network": a_network(),
        "widths_us": {READINGS: 10, TOTALS: 10},
        "function_sources": {},
        "engine": {"spark": "4.3.0"},
    }
    return Plan(**(values | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"widths_us": {READINGS: 10, TOTALS: 20}},
        {"function_sources": {"f": "def f(frame): return frame"}},
        {"engine": {"spark": "4.3.1"}},
        {"network": a_network(size="30s")},
        {"network": a_network(advance="30s")},
        {"network": replace(a_network(), name="other")},
    ],
)
def test_everything_that_could_change_a_result_changes_the_plan(changes: dict[str, Any]) -> None:
    assert a_plan(**changes).id != a_plan().id


def test_a_plan_does_not_depend_on_the_order_in_which_settings_are_given() -> None:
    one = a_plan(engine={"spark": "1", "ansi": "true"})
    assert one.id == a_plan(engine={"ansi": "true", "spark": "1"}).id


def test_a_network_whose_boxes_compute_columns_in_another_order_is_another_plan() -> None:
    def with_columns(columns: dict[str, str]) -> Network:
        network = a_network()
        return replace(network, boxes=(replace(network.boxes[0], columns=columns),))

    one = with_columns({"n": "count(*)", "m": "max(at_us)"})
    other = with_columns({"m": "max(at_us)", "n": "count(*)"})
    assert a_plan(network=one).id != a_plan(network=other).id


def a_commit(**changes: Any) -> Commit:
    values: dict[str, Any] = {
        "lease": Lease(
            key=LeaseKey(fragment="example/main", producer=ALPHA),
            epoch=Epoch(1),
            holder="driver",
            expires_at_ms=0,
        ),
        "plan": PLAN,
        "cause": Cause.NORMAL,
        "segments": (OutputSegment(stream=TOTALS, range=seconds(0, 10),
                                   stability=Stability.STABLE),),
        "lineage": (Read(output=TOTALS, input=READINGS, producer=ALPHA, range=seconds(0, 10),
                         version=Version(1)),),
    }  # fmt: skip
    return Commit(**(values | changes))


def test_the_same_computation_has_the_same_key_whoever_holds_the_lease_and_when() -> None:
    later = replace(a_commit().lease, holder="another", expires_at_ms=99)
    assert a_commit(lease=later).key == a_commit().key


def test_steps_in_one_commit_keep_all_that_each_has() -> None:
    def step(from_s: int) -> Commit:
        part = seconds(from_s, from_s + 10)
        read = replace(a_commit().lineage[0], range=part)
        return a_commit(
            cause=Cause.CORRECTION, lineage=(read,),
            segments=(replace(a_commit().segments[0], range=part),),
            metrics=StepMetrics(records_in=3, records_out=2, phases_ms={"spark": 5.0}),
        )  # fmt: skip

    steps = [step(0), step(40)]
    joined = joined_commit(steps)
    assert joined.segments == (*steps[0].segments, *steps[1].segments)
    assert joined.lineage == (*steps[0].lineage, *steps[1].lineage)
    assert (joined.metrics.records_in, joined.metrics.records_out) == (6, 4)
    assert joined.metrics.step_ms == 10.0
    renewed = replace(steps[1], lease=replace(steps[1].lease, expires_at_ms=99))
    assert joined_commit([steps[0], renewed]).key == joined.key
    for other in ({"cause": Cause.NORMAL}, {"plan": PlanId("1" * 32)}, {"ends": True}):
        with pytest.raises(Refused, match="commit each by itself"):
            joined_commit([steps[0], replace(steps[1], **other)])


@pytest.mark.parametrize(
    "change",
    [
        lambda c: replace(c, plan=PlanId("1" * 32)),
        lambda c: replace(c, lease=replace(c.lease, epoch=Epoch(2))),
        lambda c: replace(c, segments=(replace(c.segments[0], range=seconds(0, 20)),)),
        lambda c: replace(c, lineage=(replace(c.lineage[0], version=Version(2)),)),
        lambda c: replace(c, lineage=(replace(c.lineage[0], drop_rate=0.5),)),
    ],
)
def test_another_computation_has_another_key(change: Callable[[Commit], Commit]) -> None:
    assert change(a_commit()).key != a_commit().key


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"buckets": {10_000_000: EMPTY}}, "outside its segment"),
        ({"buckets": {0: EMPTY}}, "no rows"),
        ({"files": (FILE,)}, "names files but holds no rows"),
        ({"buckets": ONE_ROW}, "holds rows but names no file"),
        ({"missing": (READINGS,)}, "misses inputs but is stable"),
    ],
)
def test_a_segment_that_contradicts_itself_is_refused(
    values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        OutputSegment(stream=TOTALS, range=seconds(0, 10), stability=Stability.STABLE, **values)


def test_a_commit_has_lineage_only_of_what_it_writes() -> None:
    stray = replace(a_commit().lineage[0], output=StreamName("others"))
    with pytest.raises(Refused, match="unwritten"):
        a_commit(lineage=(stray,))


def test_a_landed_batch_counts_the_rows_of_its_file() -> None:
    with pytest.raises(Refused, match="counts other rows"):
        LandedBatch(stream=READINGS, query_id="q", batch_id=0, file=FILE, counts={0: 2})


def test_a_digest_over_a_range_does_not_depend_on_how_segments_cut_it() -> None:
    whole = (a_segment(seconds(0, 40), {0: 1, 10: 2, 30: 3}),)
    parts = (a_segment(seconds(0, 20), {0: 1, 10: 2}), a_segment(seconds(20, 40), {30: 3}))
    for part in (seconds(0, 40), seconds(10, 40), seconds(20, 30)):
        assert digest_over(whole, part) == digest_over(parts, part)


def test_a_frozen_map_keeps_order_is_equal_by_content_and_can_be_hashed() -> None:
    one, other = FrozenMap({"b": 1, "a": 2}), FrozenMap({"a": 2, "b": 1})
    assert list(one) == ["b", "a"]
    assert one == other == {"a": 2, "b": 1}
    assert hash(one) == hash(other)
    with pytest.raises(TypeError):
        one["b"] = 3  # type: ignore[index]


@pytest.mark.parametrize("name", ["a", "scanning_sources", "x9", "a" * 63])
def test_lower_case_words_are_names(name: str) -> None:
    assert check_name("stream", name) == name


@pytest.mark.parametrize(
    "name",
    ["", "A", "9a", "_a", "a-b", "a b", "a;drop table x", "../etc", "a\n", "é", "a" * 64, None, 7],
)
def test_what_could_mean_something_to_sql_a_shell_or_a_path_is_no_name(name: Any) -> None:
    with pytest.raises(Refused, match="is not a name"):
        check_name("stream", name)


def test_columns_have_one_spelling_and_few_types() -> None:
    given = {"a": "INTEGER", "b": "Decimal(10, 2)", "c": "long"}
    assert declare_columns("stream s", given) == (
        Column("a", "int"),
        Column("b", "decimal(10,2)"),
        Column("c", "bigint"),
    )
    assert [Column("x", type_).scale for type_ in ("decimal(10,2)", "bigint")] == [2, 0]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "no columns"),
        ({"a": "map<string,int>"}, "is not one of"),
        ({"a": "decimal(39,2)"}, "no decimal"),
        ({"a": "decimal(5,6)"}, "no decimal"),
        ({"stime": "bigint"}, "a word Medusa keeps"),
        ({"a b": "int"}, "is not a name"),
    ],
)
def test_columns_that_cannot_be_are_refused_naming_their_owner(
    columns: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        declare_columns("stream s", columns)


@pytest.mark.parametrize(
    ("records", "is_shared", "is_refused"),
    [
        (1, False, False),
        (0, False, True),
        (2, False, True),
        (1, True, False),
        (0, True, True),
        (2, True, True),
    ],
)
def test_a_batch_counts_the_rows_of_its_file_or_some_of_a_shared_one(
    records: int, is_shared: bool, is_refused: bool
) -> None:
    """The file has one row; a shared one may hold other streams' rows, but not fewer rows."""
    values: dict[str, Any] = {
        "stream": READINGS,
        "query_id": "query",
        "batch_id": 1,
        "file": FILE,
        "counts": {0: records} if records else {},
        "file_of": TOTALS if is_shared else None,
    }
    if is_refused:
        with pytest.raises(Refused, match="counts other rows"):
            LandedBatch(**values)
    else:
        assert LandedBatch(**values).counts == {0: 1}


def test_a_shared_file_may_hold_more_rows_than_a_batch() -> None:
    values: dict[str, Any] = {"stream": READINGS, "query_id": "query", "batch_id": 1}
    several = replace(FILE, rows=5)
    LandedBatch(**values, file=several, counts={0: 2}, file_of=TOTALS)
    with pytest.raises(Refused, match="counts other rows"):
        LandedBatch(**values, file=several, counts={0: 2})


def test_an_import_is_written_under_the_lease_of_that_import_alone() -> None:
    def lease(fragment: str, producer: Producer) -> Lease:
        key = LeaseKey(fragment=fragment, producer=producer)
        return Lease(key=key, epoch=Epoch(1), holder="me", expires_at_ms=0)

    here = Producer(ALPHA.participant, IMPORT)
    assert is_import_of(lease(import_fragment(READINGS), here), READINGS)
    assert not is_import_of(lease(import_fragment(READINGS), ALPHA), READINGS)
    assert not is_import_of(lease(import_fragment(TOTALS), here), READINGS)


@pytest.mark.parametrize(
    ("second", "is_refused"), [((3, 6), False), ((3, 5), True), ((2, 6), True), ((3, 4), True)]
)
def test_recalls_of_a_line_rise_in_generation_and_version(
    second: tuple[int, int], is_refused: bool
) -> None:
    told = [
        LineRecall(generation=generation, from_us=0, version=Version(version), because="a test")
        for generation, version in ((2, 5), second)
    ]
    if is_refused:
        with pytest.raises(Refused, match="out of order"):
            check_recalls(told)
    else:
        check_recalls(told)


@pytest.mark.parametrize(
    ("generation", "version", "is_refused"),
    [
        (1, 1, True),
        (2, 1, False),
        (GENERATION_MAX, 1, False),
        (GENERATION_MAX + 1, 1, True),
        (2, 0, True),
        (2, FOREVER_US, False),
        (2, FOREVER_US + 1, True),
    ],
)
def test_a_recall_begins_the_second_generation_or_a_later_one(
    generation: int, version: int, is_refused: bool
) -> None:
    values: dict[str, Any] = {"generation": generation, "version": version, "because": "a test"}
    if is_refused:
        with pytest.raises(Refused):
            LineRecall(from_us=0, **values)
    else:
        LineRecall(from_us=-FOREVER_US, **values)
        with pytest.raises(Refused):
            LineRecall(from_us=FOREVER_US, **values)


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "-Infinity", "-1", "0", "0.0000001"])
def test_what_is_no_amount_of_money_is_refused(amount: str) -> None:
    finding = AMOUNT.finding(("price",), Decimal(amount))
    assert finding is not None
    assert "write a number above 0" in finding.says


def test_amounts_of_money_have_bounds() -> None:
    assert AMOUNT.holds(Decimal("0.000001"))
    assert AMOUNT.holds(Decimal(MONEY_MAX))
    assert AMOUNT_OR_ZERO.holds(Decimal(0))
    assert not AMOUNT_OR_ZERO.holds(Decimal("-0.000001"))
    assert not AMOUNT.holds(MONEY_MAX + Decimal("0.01"))


def test_a_quarantined_record_is_complete_when_all_of_its_bytes_are_kept() -> None:
    def kept(record: bytes, **more: Any) -> QuarantinedRecord:
        return QuarantinedRecord.of(
            record, stream=READINGS, origin="a", position=1, field="b", reason="c", **more
        )

    assert kept(b"whole").is_complete
    assert not kept(b"x" * 1_025).is_complete, "its first 1,024 bytes are kept"
    assert not kept(b"whole", is_whole=False).is_complete
    assert not kept(b"\xff").is_complete, "what is no text is kept as another byte"
    assert not replace(kept(b"whole"), content="Whole").is_complete


def test_mappings_of_values_are_frozen() -> None:
    segment = a_segment(seconds(0, 10), {0: 1})
    assert isinstance(segment.buckets, FrozenMap)
    again = replace(segment)
    assert again.buckets is segment.buckets, "what is frozen is not copied"
    assert hash(again) == hash(segment)


@pytest.mark.parametrize("text", [["a"] * 64, "a" * 63, "a" * 65, "g" * 64, "A" * 64, None])
def test_what_is_no_hash_is_no_revision(text: object) -> None:
    assert checked_revision("0a" * 32) == "0a" * 32
    with pytest.raises(Refused):
        checked_revision(text)


def test_a_certificate_counts_quarantined_records_from_none_on() -> None:
    values: dict[str, Any] = {
        "stream": TOTALS,
        "producer": ALPHA,
        "version": Version(1),
        "suite": Suite.CONVERGED,
        "range": seconds(0, 10),
        "passed": True,
        "figures": {},
    }
    assert Certificate(**values).quarantined == 0
    with pytest.raises(Refused):
        Certificate(**values, quarantined=-1)
