"""Sliding windows over panes give what windows over records give, and read a record once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from medusa_core.errors import Refused
from medusa_core.knowledge import Limits
from medusa_core.network import Aggregate, Box, Filter, Map, Network, Output, Source, Union
from pipelines.language.check import CheckedAggregate, check_network
from pipelines.language.panes import over_panes
from pipelines.spark import step
from tests.replaying import Replayer, coarser, digests, parquet_files
from tests.sweeps import IS_LONG

SECOND_US = 1_000_000
FOLDED = {
    "records": "count(*)",
    "given": "count(value)",
    "big": "count(*) filter (where value > 50)",
    "odd": "count_if(value % 2 = 1)",
    "total": "sum(value)",
    "mean": "round(avg(value), 3)",
    "mean_big": "round(mean(value) filter (where value > 50), 3)",
    "least": "min(real)",
    "most": "max(value) - min(value)",
    "any_flag": "some(flag)",
    "every_flag": "every(flag)",
    "bits": "bit_xor(value)",
    "values": "count(distinct kind)",
    "half": "count(distinct kind) + count(*) div 2L",
    "named": "if(key is null, 'nobody', key)",
}
COUNTED = {"records": "count(*)", "most": "max(value)"}
SOME = FOLDED if IS_LONG else COUNTED


def a_network(columns: dict[str, str] | None = None, *, size: str = "60s", advance: str = "10s",
              before: tuple[Box, ...] = (), input_: str = "given",
              also: tuple[Output, ...] = ()) -> Network:  # fmt: skip
    return Network(
        name="slid",
        sources=(
            Source(
                name="given",
                columns={"at_us": "bigint", "key": "string", "kind": "string", "value": "int",
                         "real": "double", "flag": "boolean", "long": "bigint"},
                time="at_us",
            ),
        ),
        boxes=(
            *before,
            Aggregate(name="per_key", input=input_, size=size, advance=advance, group_by=("key",),
                      columns=FOLDED if columns is None else columns),
            Filter(name="some", input="per_key", cases={"yes": "records > 0"}),
        ),
        outputs=(Output(name="answers", input="some"), *also),
    )  # fmt: skip


def records(rows: int = 1_500, seed: int = 5) -> pa.Table:
    random = np.random.default_rng(seed)
    at = random.integers(0, 600, rows) * SECOND_US + 1_700_000_000 * SECOND_US
    at = np.where(random.random(rows) < 0.3, at + 3_600 * SECOND_US, at)
    pick = random.integers
    reals = np.array([0.0, -0.0, 1.5, -2.5, np.nan, np.inf, None], dtype=object)
    return pa.table(
        {
            "at_us": pa.array(at),
            "key": pa.array([["a", "b", None][i] for i in pick(0, 3, rows)], pa.string()),
            "kind": pa.array([["x", "y", "z", None][i] for i in pick(0, 4, rows)], pa.string()),
            "value": pa.array([None if v > 95 else int(v) for v in pick(0, 100, rows)], pa.int32()),
            "real": pa.array([reals[i] for i in pick(0, 7, rows)], pa.float64()),
            "flag": pa.array([[True, False, None][i] for i in pick(0, 3, rows)], pa.bool_()),
            "long": pa.array(pick(-(2**62), 2**62, rows)),
        }
    )


class Slid:
    """Replays of one table, each in a home of its own."""

    def __init__(self, replayer: Replayer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._replayer, self._patch = replayer, monkeypatch
        self._runs = itertools.count()
        self._files = parquet_files(replayer.folder / "in", records())

    def answers(self, network: Network, *, over_panes: bool = True, **how: Any) -> Any:
        """The digests; how many records were read and quarantined is kept."""
        with self._patch.context() as patch:
            if not over_panes:
                patch.setattr(step, "over_panes", lambda checked: (checked, {}))
            with self._replayer.home(f"home{next(self._runs)}") as home:
                self._replayer.run(home, network, {"given": self._files}, **how)
                self.write_quarantine = home.catalog.quarantine_count()
                steps = [s for s in home.catalog.steps() if s.fragment == "slid/main"]
                self.read = sum(s.metrics.records_in for s in steps)
                self.steps = len(steps)
                return digests(home, network)


@pytest.fixture
def slid(replayer: Replayer, monkeypatch: pytest.MonkeyPatch) -> Slid:
    return Slid(replayer, monkeypatch)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.long
def test_windows_over_panes_are_equal_to_windows_over_records_and_read_each_once(
    slid: Slid,
) -> None:
    network, few = a_network(), Limits(buckets_per_step_max=7)
    whole = slid.answers(network, over_panes=False)
    assert whole["answers"]
    assert slid.answers(network, over_panes=False, limits=few) == whole
    read_again = slid.read
    assert slid.answers(network, limits=few) == whole
    assert slid.steps > 10
    assert slid.read == records().num_rows < read_again


@pytest.mark.long
def test_panes_need_not_be_as_long_as_a_bucket_nor_as_the_advance(slid: Slid) -> None:
    network = a_network(SOME, size="50s", advance="20s")
    assert panes_of(network) == {"per_key_panes": "per_key"}
    whole = slid.answers(network, over_panes=False)
    for width_s in (5, 10):
        limits = Limits(buckets_per_step_max=7)
        found = slid.answers(network, width_s=width_s, limits=limits)
        assert coarser(found, 10 * SECOND_US) == whole
        assert slid.read == records().num_rows


@pytest.mark.usefixtures("interpreted")
@pytest.mark.long
def test_boxes_before_the_panes_and_outputs_beside_them_get_every_record(slid: Slid) -> None:
    """Also those that an expression fails on: they go to quarantine once."""
    columns = {c: c for c in ("key", "kind", "real", "flag")} | {"value": "1000 div (value - 7)"}
    before = (
        Filter(name="good", input="given", cases={"yes": "flag is not null"}),
        Map(name="divided", input="good", columns=columns),
        Map(name="shown", input="good", columns={"key": "key"}),
    )
    network = a_network(COUNTED, before=before,
                        input_="divided", also=(Output(name="seen", input="shown"),))  # fmt: skip
    whole = slid.answers(network, over_panes=False)
    write_quarantine = slid.write_quarantine
    assert write_quarantine > 0
    assert slid.answers(network, limits=Limits(buckets_per_step_max=7)) == whole
    assert slid.write_quarantine == write_quarantine
    assert slid.read == records().num_rows


@pytest.mark.long
def test_windows_over_records_and_rows_of_windows_leave_no_panes(slid: Slid) -> None:
    """Panes of the step before hold rows of windows that the next step computes again."""
    before = (
        Aggregate(name="inner", input="given", size="20s", advance="10s", group_by=("key",),
                  columns={"number": "count(*)"}),
        Map(name="numbers", input="inner", columns={"key": "key", "value": "cast(number as int)"}),
        Map(name="values", input="given", columns={"key": "key", "value": "value"}),
        Union(name="both", inputs=("numbers", "values")),
    )  # fmt: skip
    network = a_network(COUNTED, before=before,
                        input_="both")  # fmt: skip
    whole = slid.answers(network, over_panes=False)
    assert whole["answers"]
    assert slid.answers(network, limits=Limits(buckets_per_step_max=7)) == whole
    assert slid.steps > 10


@pytest.mark.long
def test_records_that_another_window_needs_again_are_read_again(slid: Slid) -> None:
    """A sum of doubles is no fold: beside it nothing is saved, and all comes out the same."""
    beside = Aggregate(name="beside", input="given", size="60s", advance="10s",
                       columns={"first_value": "first(value)"})  # fmt: skip
    also = (Output(name="others", input="beside"),)
    network = a_network(SOME, before=(beside,), also=also)
    whole = slid.answers(network, over_panes=False)
    assert slid.answers(network, limits=Limits(buckets_per_step_max=7)) == whole
    assert slid.read > records().num_rows


def panes_of(network: Network) -> dict[str, str]:
    return dict(over_panes(check_network(network))[1])


@pytest.mark.parametrize(
    "expression",
    ["sum(long)", "first(value)", "size(collect_list(value))", "round(sum(real), 2)",
     "count(distinct kind, flag)", "count(distinct kind) + count(distinct flag)",
     "count(distinct kind) filter (where flag)", "max_by(value, kind)", "max(1 div value)"],
)  # fmt: skip
def test_what_is_no_fold_of_panes_is_computed_over_records(expression: str) -> None:
    checked = check_network(a_network({"records": "count(*)", "value": expression}))
    assert over_panes(checked) == (checked, {})


def test_tumbling_windows_have_no_panes() -> None:
    assert panes_of(a_network(size="60s", advance="60s")) == {}


def test_a_taken_name_is_left_to_its_holder() -> None:
    before = (Filter(name="per_key_panes", input="given", cases={"yes": "flag"}),)
    network = a_network(before=before, input_="per_key_panes")
    assert panes_of(network) == {"per_key_panes2": "per_key"}


def test_windows_over_panes_have_the_same_columns() -> None:
    checked = check_network(a_network())
    paned, _ = over_panes(checked)
    assert paned.columns_of_output("answers") == checked.columns_of_output("answers")


def test_windows_over_panes_are_reported_by_the_users_expressions() -> None:
    """Two of them: the first keeps its own while the second is rewritten."""
    can_fail = {
        "records": "count(*)",
        "kinds": "count(*) / count(distinct kind)",
        "total": "sum(value)",
    }
    beside = Aggregate(name="beside", input="given", size="60s", advance="10s", columns=can_fail)
    network = a_network(can_fail, before=(beside,), also=(Output(name="others", input="beside"),))
    over, folds = over_panes(check_network(network))
    assert set(folds.values()) == {"beside", "per_key"}
    for name in folds.values():
        box = over.boxes[name]
        assert isinstance(box, CheckedAggregate)
        assert box.expressions == tuple(can_fail.values())
        assert dict(box.box.columns) != can_fail
        total = dict(box.columns)["total"]
        assert total.error is None, "a sum of partial sums is not looked at for an overflow"


def test_a_mistake_in_a_sliding_window_is_reported_as_in_any_other() -> None:
    with pytest.raises(Refused, match=r"per_key.*nothing"):
        check_network(a_network({"records": "count(nothing)"}))
