"""Sinks in the catalog: declared, moved on, withdrawn, and what they hold; both catalogs alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.names import StreamName, Version
from medusa_core.sinks import HOLD_PURPOSE, DeliveryState, SinkRecord
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest

LIMIT_MS = 10_000


def declare(catalog: Catalog, name: str = "lake", document: str = "{}", *,
            from_us: int = BEGINNING_US, through_us: int | None = None) -> SinkRecord:  # fmt: skip
    catalog.declare_sink(
        a.SUMS, name, document, from_us=from_us, through_us=through_us, limit_ms=LIMIT_MS
    )
    return next(sink for sink in catalog.sinks() if sink.name == name)


def delivered(through: int) -> DeliveryState:
    return DeliveryState(through_us=through * a.WIDTH_US, version=Version(3), rows=7, lost_us=5)


def hold_of(name: str, from_us: int) -> Hold:
    return Hold(
        stream=a.SUMS, holder=f"sink:{name}", purpose=HOLD_PURPOSE, from_us=from_us,
        limit_ms=LIMIT_MS,
    )  # fmt: skip


def test_a_sink_holds_from_its_beginning_and_then_from_what_was_delivered(catalog: Catalog) -> None:
    sink = declare(catalog, from_us=a.WIDTH_US)
    assert catalog.holds(a.SUMS) == (hold_of("lake", a.WIDTH_US),)
    catalog.record_delivery(sink, delivered(4), LIMIT_MS)
    assert catalog.holds(a.SUMS) == (hold_of("lake", 4 * a.WIDTH_US),)
    (current,) = catalog.sinks()
    assert current.delivered_at_ms is not None
    assert replace(current, delivered_at_ms=None) == replace(
        sink, through_us=4 * a.WIDTH_US, version=3, rows=7, lost_us=5
    )


def test_what_a_sink_has_yet_to_deliver_is_not_trimmed(catalog: Catalog) -> None:
    catalog.commit(a.a_commit(a.a_segment(0, 6)))
    sink = declare(catalog)
    catalog.record_delivery(sink, delivered(2), LIMIT_MS)
    trimmed = catalog.trim(
        a.SUMS, a.ME, 6 * a.WIDTH_US, needed={a.TAIL: FOREVER_US}, segments_max=9
    )
    assert trimmed.trimmed_us == 2 * a.WIDTH_US
    assert trimmed.held_by is not None
    assert (trimmed.held_by.holder, trimmed.held_by.purpose) == ("sink:lake", HOLD_PURPOSE)


def test_a_silent_sink_does_not_block_trims_without_end(
    home: HomeUnderTest, catalog: Catalog
) -> None:
    catalog.commit(a.a_commit(a.a_segment(0, 6)))
    catalog.declare_sink(
        a.SUMS, "lake", "{}", from_us=BEGINNING_US, through_us=None, limit_ms=20
    )  # fmt: skip
    home.let_time_pass(catalog.read_clock_ms() + 20)
    trimmed = catalog.trim(
        a.SUMS, a.ME, 6 * a.WIDTH_US, needed={a.TAIL: FOREVER_US}, segments_max=9
    )
    assert trimmed.trimmed_us == 6 * a.WIDTH_US


def test_sinks_of_a_stream_are_independent(catalog: Catalog) -> None:
    declare(catalog, "lake")
    second = declare(catalog, "desk", through_us=0)
    assert [(s.stream, s.name) for s in catalog.sinks()] == [(a.SUMS, "desk"), (a.SUMS, "lake")]
    catalog.record_delivery(second, delivered(9), LIMIT_MS)
    assert catalog.holds(a.SUMS) == (
        hold_of("lake", BEGINNING_US),
        hold_of("desk", 9 * a.WIDTH_US),
    )


def test_a_sink_declared_again_begins_where_it_is_declared_to(catalog: Catalog) -> None:
    sink = declare(catalog)
    catalog.record_delivery(sink, delivered(4), LIMIT_MS)
    catalog.record_sink_problem(sink, "the disk is full")
    again = declare(catalog, document='{"path": "/other"}', from_us=a.WIDTH_US)
    assert (again.through_us, again.problem) == (None, None)
    assert catalog.holds(a.SUMS) == (hold_of("lake", a.WIDTH_US),)
    with pytest.raises(Conflict, match="changed meanwhile"):
        catalog.record_delivery(sink, delivered(5), LIMIT_MS)
    catalog.record_sink_problem(sink, "an old story")
    assert catalog.sinks() == (again,)


def test_a_sink_that_was_withdrawn_holds_nothing(catalog: Catalog) -> None:
    sink = declare(catalog)
    for _ in range(2):
        catalog.withdraw_sink(a.SUMS, "lake")
    assert (catalog.sinks(), catalog.holds(a.SUMS)) == ((), ())
    with pytest.raises(Conflict, match="withdrawn"):
        catalog.record_delivery(sink, delivered(4), LIMIT_MS)


def test_the_problem_of_a_blocked_sink_is_known_until_it_continues(catalog: Catalog) -> None:
    sink = declare(catalog)
    catalog.record_sink_problem(sink, "x" * 3_000)
    assert catalog.sinks()[0].problem == "x" * 2_000
    catalog.record_delivery(sink, delivered(1), LIMIT_MS)
    assert catalog.sinks()[0].problem is None
    catalog.record_sink_problem(sink, "y")
    catalog.record_sink_problem(sink, None)
    assert catalog.sinks()[0].problem is None


def test_a_sink_is_of_a_stream_of_this_home_and_has_a_name(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="not deployed"):
        catalog.declare_sink(
            StreamName("none"), "lake", "{}", from_us=0, through_us=None, limit_ms=1
        )
    for name in ("", "Lake", "a b", "x" * 64, "1st", "lake'; DROP TABLE x"):
        with pytest.raises(Refused):
            catalog.declare_sink(a.SUMS, name, "{}", from_us=0, through_us=None, limit_ms=1)
    assert (catalog.sinks(), catalog.holds(a.SUMS)) == ((), ())


def test_nothing_is_delivered_before_the_beginning(catalog: Catalog) -> None:
    sink = declare(catalog, from_us=3 * a.WIDTH_US)
    with pytest.raises(Refused):
        catalog.record_delivery(sink, delivered(2), LIMIT_MS)
    assert catalog.holds(a.SUMS) == (hold_of("lake", 3 * a.WIDTH_US),)
