"""The windows and declared keys that a box emits without records, as rows that a job is given.

The plan of a job has no bound of event time in it. So the windows come as an input besides the
records: one row for each window and each combination of declared keys.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.decide import ComputeStep
from medusa_core.emitted_windows import emitted_windows, emitting
from medusa_core.empty_windows import combinations
from medusa_core.fragments import Fragment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import InputKnowledge
from medusa_core.names import StreamName
from medusa_core.network import Aggregate
from pipelines.language.check import CheckedNetwork
from pipelines.spark.inputs import InputRecords
from pipelines.storage.arrow_schema import arrow_type, record_schema

END = "_end_us"
"""The end of a window; its start is the event time of the row."""


def stream_of(box: str) -> StreamName:
    """The input under which a job is given the windows of a box; no stream has such a name."""
    return StreamName(f"_windows_of_{box}")


def emitted_columns(
    fragment: Fragment, checked: CheckedNetwork
) -> dict[StreamName, tuple[Column, ...]]:
    """The columns of these inputs."""
    return {stream_of(box.name): _columns(box, checked) for box in emitting(fragment)}


def _columns(box: Aggregate, checked: CheckedNetwork) -> tuple[Column, ...]:
    known = {c.name: c for c in checked.columns[checked.network.port(box.input, box.name)]}
    return (Column(END, "bigint"), *(known[name] for name in box.group_by))


def emitted_records(step: ComputeStep, checked: CheckedNetwork) -> list[InputRecords]:
    """These inputs of a step."""
    fragment = step.fragment.fragment
    lives = {name: _life_of(known) for name, known in step.fragment.inputs.items()}
    windows = emitted_windows(fragment, step.outputs, step.range, lives)
    return [
        InputRecords(
            stream_of(box.name), _columns(box, checked), (),
            _rows(box, windows[box.name], _columns(box, checked)),
        )
        for box in emitting(fragment)
    ]  # fmt: skip


def _life_of(known: InputKnowledge) -> Range | None:
    end_us = FOREVER_US if known.end_us is None else known.end_us
    return Range(known.origin_us, end_us) if known.origin_us < end_us else None


def _rows(box: Aggregate, windows: Iterable[Range], columns: tuple[Column, ...]) -> pa.Table:
    """A row for each window and combination of keys."""
    windows = tuple(windows)
    keys = combinations(box.keys, box.group_by)
    starts = [window.from_us for window in windows for _ in keys]
    ends = [window.to_us for window in windows for _ in keys]
    values = [
        pa.array([one[at] for one in keys] * len(windows), arrow_type(column.type))
        for at, column in enumerate(columns[1:])
    ]
    arrays = [pa.array(ends, pa.int64()), *values, pa.array(starts, pa.int64())]
    return pa.table(arrays, schema=record_schema(columns))


def emitted_count(inputs: Iterable[InputRecords]) -> int:
    """How many rows a step emits at most without records."""
    return sum(i.given.num_rows for i in inputs if i.given is not None and not i.is_thinned)
