"""Fragments of one shape share a Spark job, and each gets what it would have computed alone."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from medusa_core.fragments import fragments_of
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Function,
    Map,
    Network,
    Output,
    Source,
    Union,
)
from pipelines.language.check import check_network
from pipelines.language.fragment_shapes import Shape, shaped
from pipelines.participant import driver, replay_landing
from tests.replaying import Replayer, digests, parquet_files
from tests.sweeps import IS_LONG

SECOND_US = 1_000_000
MEMBERS = 6 if IS_LONG else 3
COLUMNS = {"at_us": "bigint", "name": "string", "bytes": "bigint"}


def boxes_of(number: int, fragment: str) -> tuple[Box, ...]:
    """Every box but Function; the Map can fail on a record."""

    def own(name: str) -> str:
        return f"{name}_{number}"

    return (
        Filter(name=own("split"), input=own("events"), fragment=fragment,
               cases={"big": "bytes > 500", "named": "name is not null"}, otherwise="rest"),
        Map(name=own("big"), input=own("split") + ".big", fragment=fragment,
            columns={"name": "name", "bytes": "bytes * 2"}),
        Map(name=own("rest"), input=own("split") + ".rest", fragment=fragment,
            columns={"name": "'nobody'", "bytes": "cast(1000 / (bytes - 7) as bigint)"}),
        Union(name=own("all"), inputs=(own("big"), own("rest")), fragment=fragment),
        Aggregate(name=own("counted"), input=own("all"), size="60s", group_by=("name",),
                  fragment=fragment,
                  columns={"records": "count(*)", "kinds": "count(distinct bytes)",
                           "total": "sum(bytes)", "first_bytes": "first(bytes)"}),
        Filter(name=own("many"), input=own("counted"), cases={"yes": "records > 1"},
               fragment=fragment),
        Aggregate(name=own("minutes"), input=own("many"), size="2m", fragment=fragment,
                  columns={"names": "count(*)", "most": "max(records)"}),
    )  # fmt: skip


def many_alike(*, apart: bool = True) -> Network:
    """The same question about many streams, each in a fragment of its own."""
    numbers = range(MEMBERS)
    return Network(
        name="many",
        sources=tuple(
            Source(name=f"events_{n}", columns=COLUMNS, time="at_us") for n in numbers
        ),
        boxes=tuple(b for n in numbers for b in boxes_of(n, f"part_{n}" if apart else "main")),
        outputs=tuple(
            Output(name=f"{name}_{n}_out", input=f"{name}_{n}")
            for n in numbers
            for name in ("all", "minutes")
        ),
    )  # fmt: skip


def events(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    rows = int(random.integers(0, 120))
    names = np.array(["a", "b", 'say "member":5, {c,}', None], dtype=object)
    return pa.table(
        {
            "at_us": pa.array(random.integers(0, 400, rows) * SECOND_US + 1_700_000_000_000_000),
            "name": pa.array(names[random.integers(0, 4, rows)].tolist(), pa.string()),
            "bytes": pa.array(
                np.where(random.random(rows) < 0.1, 7, random.integers(0, 999, rows))
            ),
        }
    )


class LandsFirst(ThreadPoolExecutor):
    """Everything has landed before the first step: what is ready then shares a job."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        landed = super().submit(fn, *args, **kwargs)
        wait([landed])
        return landed


@pytest.fixture
def replay_many(replayer: Replayer, monkeypatch: pytest.MonkeyPatch) -> Any:
    inputs = {
        f"events_{n}": parquet_files(replayer.folder / f"in{n}", events(n)) for n in range(MEMBERS)
    }

    def run(*, together: bool, **how: Any) -> tuple[Any, list[Any], list[int]]:
        with monkeypatch.context() as patch:
            patch.setattr(replay_landing, "ThreadPoolExecutor", LandsFirst)
            patch.setattr(driver, "ONE_BY_ONE_MAX", (4 if IS_LONG else 2) if together else 10_000)
            with replayer.home(f"home{together}{len(how)}") as home:
                network = many_alike()
                replayer.run(home, network, inputs, **how)
                steps = [s for s in home.catalog.steps() if s.metrics.records_in]
                quarantine = [
                    (q.stream, q.origin, q.position, q.field, json.loads(q.content))
                    for q in home.catalog.quarantined()
                ]
                jobs = [s.metrics.spark_jobs for s in steps if s.fragment.startswith("many/")]
                return digests(home, network), sorted(quarantine, key=str), jobs

    return run


@pytest.mark.usefixtures("interpreted")
@pytest.mark.long
def test_what_a_shared_job_gives_is_what_each_fragment_gives_alone(replay_many: Any) -> None:
    alone, write_quarantine, jobs_alone = replay_many(together=False)
    assert sum(map(bool, alone.values())) > MEMBERS
    assert len(write_quarantine) > MEMBERS
    shared, also_quarantined, jobs_shared = replay_many(together=True)
    assert shared == alone
    assert also_quarantined == write_quarantine
    assert sum(jobs_shared) < sum(jobs_alone) / 3
    in_pieces, still_quarantined, _ = replay_many(
        together=True, limits=Limits(buckets_per_step_max=9)
    )
    assert in_pieces == alone
    assert still_quarantined == write_quarantine


def shape_of(boxes: tuple[Box, ...], columns: dict[str, str] = COLUMNS) -> Shape | None:
    network = Network(
        name="one",
        sources=(Source(name="events_0", columns=columns, time="at_us"),),
        boxes=boxes,
        outputs=(Output(name="out", input=boxes[-1].name),),
    )
    (fragment,) = fragments_of(network)
    found = shaped(fragment, check_network(network), {})
    return None if found is None else found.shape


def counted(name: str = "counted", size: str = "60s", what: str = "count(*)") -> Box:
    return Aggregate(name=name, input="events_0", size=size, columns={"records": what})


def test_names_make_no_shape_but_windows_columns_and_expressions_do() -> None:
    shape = shape_of((counted(),))
    assert shape is not None
    assert shape_of((counted(name="others"),)) == shape
    for other in (counted(size="30s"), counted(what="count(name)")):
        assert shape_of((other,)) != shape
    assert shape_of((counted(),), {**COLUMNS, "more": "int"}) != shape


def test_a_column_that_is_named_member_already_stays_the_users() -> None:
    shape = shape_of((counted(what="max(member)"),), {**COLUMNS, "member": "int"})
    assert shape is not None
    assert shape.member == "member1"


def test_a_function_sees_its_rows_alone_and_has_no_shape() -> None:
    def whole(frame: Any) -> Any:
        return frame

    assert (
        shape_of((Function(name="f", input="events_0", function=whole, columns=COLUMNS),)) is None
    )


def test_a_fragment_whose_shape_cannot_be_checked_is_computed_alone() -> None:
    boxes = (
        counted(name="grouped"),
        Map(name="mapped", input="events_0",
            columns={"window_start": "timestamp_micros(at_us)", "records": "at_us"}),
        Union(name="both", inputs=("grouped", "mapped")),
    )  # fmt: skip
    assert shape_of(boxes) is None


def test_members_read_streams_of_their_own() -> None:
    network = many_alike()
    checked = check_network(network)
    known: dict[str, Shape | None] = {}
    found = [shaped(f, checked, known) for f in fragments_of(network)]
    assert len(known) == 1
    reads = {pair for s in found if s is not None for pair in s.inputs}
    assert reads == {(StreamName("in0"), StreamName(f"events_{n}")) for n in range(MEMBERS)}
