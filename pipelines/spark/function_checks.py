"""Checks of functions of Python: the same rows for any order, partitions and cut of their input.

An aggregate function is tried on each group besides: in other orders and in parts
(`medusa_core.user_aggregates`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from medusa_core.decide import ComputeStep
from medusa_core.digest import Digest
from medusa_core.errors import Refused
from medusa_core.grid import Range, floor_us
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Function
from medusa_core.reads import reads_of
from pipelines.spark.results import StepResult
from pipelines.storage.store import remove_file

STEPS_PER_CHECK = 1_000


class FunctionChecks:
    """The checks of one engine's steps. `shuffled` computes a step over shuffled records."""

    def __init__(self, root: Path, shuffled: Callable[[ComputeStep], StepResult]) -> None:
        self._root, self._shuffled = root, shuffled
        self._steps: dict[str, int] = {}

    def check(self, step: ComputeStep, result: StepResult) -> None:
        """Compare the result of a step with those over shuffled records, before it is committed.

        Done at the fragment's first step that has records and at every thousandth after it. Raises
        Refused if the step over shuffled rows in other partitions, whole and in two halves, gives
        other digests, if a Function writes event time, or if an aggregate function depends on the
        order of its records.
        """
        fragment = step.fragment.fragment
        functions = [name for box in fragment.boxes for name in functions_of(box)]
        if not functions or not result.metrics.records_in:
            return
        steps = self._steps.get(fragment.id, 0)
        self._steps[fragment.id] = steps + 1
        if steps % STEPS_PER_CHECK:
            return
        found = {w.stream: dict(w.buckets) for w in result.written}
        for parts in ([step], halves(step)):
            again: dict[StreamName, dict[int, Digest]] = {name: {} for name in found}
            for part in parts:
                for written in self._shuffled(part).written:
                    again[written.stream].update(written.buckets)
                    for file in written.files:
                        remove_file(self._root, file.path)
            if again != found:
                raise Refused(
                    f"function {' or '.join(functions)} of network {fragment.network.name} gives "
                    "other rows when its input comes in another order, other partitions or other "
                    "steps: make each row depend on one input row alone, and the value of an "
                    "aggregate function on its records alone"
                )


def functions_of(box: Box) -> tuple[str, ...]:
    """The functions of Python that a box calls, by name."""
    if isinstance(box, Function):
        return (box.name,)
    return tuple(a.name for a in box.aggregates) if isinstance(box, Aggregate) else ()


def halves(step: ComputeStep) -> list[ComputeStep]:
    """The step cut in two at a bucket near its middle; the step itself if it has one bucket."""
    known = step.fragment
    width_us = max(known.outputs[name].width_us for name in step.outputs)
    middle_us = floor_us((step.range.from_us + step.range.to_us) // 2, width_us)
    if not step.range.from_us < middle_us < step.range.to_us:
        return [step]
    ranges = (Range(step.range.from_us, middle_us), Range(middle_us, step.range.to_us))
    return [
        replace(step, range=part, reads=tuple(reads_of(known, step.outputs, part)))
        for part in ranges
    ]
