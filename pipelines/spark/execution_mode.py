"""The modes in which a step's job is run, chosen by how many records there are.

All give the same rows (laws I2, I3); they differ in what Spark must do before the first record.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from medusa_core.fragments import Fragment
from medusa_core.network import Aggregate, Function, Port, Session, inputs_of

PREPARED_RECORDS_MAX = 1_000_000
"""Up to how many records one core is enough for a step."""

KERNEL_RECORDS_MIN = 100_000
"""From how many records on a step is computed by the fragment's kernel, if it has one.

A kernel has longer to begin than a prepared job: over 1,000 records it took 113 ms and the job 65,
over 250,000 102 ms and 188.
"""

KERNEL_CORRECTED_RECORDS_MIN = 10_000
"""The same for corrections, which nobody waits for: a kernel takes less CPU. Over 45,000 records in
sliding windows it took 0.2 s, and the job 0.7 s.
"""

HANDED_OVER_RECORDS_MAX = 20_000
"""Up to how many records a step that is planned anew gets its inputs as Arrow tables."""

RESULT_ROWS_IN_DRIVER_MAX = 100_000
"""Up to how many expected rows the driver writes a step's results. Above that Spark's tasks write
them, unless a kernel computes the step."""

KERNEL_ROWS_MAX, KERNEL_BYTES_MAX = 500_000, 64 << 20
"""Up to how many expected rows, and bytes, a kernel returns to the driver; a row counts as many
bytes as an input record has in its file. Rows that are left for the next step are not counted."""

ROWS_OUT_PER_AGGREGATED_RECORD = 0.25


class JobForm(Enum):
    """The form in which a job that was made before is given its records; each is verified alone."""

    OVER_RECORDS = "the prepared job over records"
    OVER_PANES = "the prepared job over panes"
    OVER_CARRIED_ROWS = "the prepared job over carried rows"
    IN_KERNEL = "the prepared job in a kernel"
    IN_KERNEL_OVER_PANES = "the prepared job over panes in a kernel"
    IN_KERNEL_OVER_CARRIED_ROWS = "the prepared job over carried rows in a kernel"

    @property
    def is_in_kernel(self) -> bool:
        """Whether DuckDB computes it."""
        return self.name.startswith(JobForm.IN_KERNEL.name)

    def over(self, *, carried: bool) -> JobForm:
        """The form in which the job is given rows of an earlier step as well."""
        if self.is_in_kernel:
            return self.IN_KERNEL_OVER_CARRIED_ROWS if carried else self.IN_KERNEL_OVER_PANES
        return self.OVER_CARRIED_ROWS if carried else self.OVER_PANES


class ExecutionMode(Enum):
    """How a step reads its input and is planned."""

    PREPARED = "prepared: a job made before, sent again"
    HANDED_OVER = "planned anew, records handed over"
    SCANNED = "planned anew, records scanned"


def mode_of(fragment: Fragment, records: int, rows_out: float) -> ExecutionMode:
    """The mode for a step over so many records, of which about so many rows come out.

    Of more than RESULT_ROWS_IN_DRIVER_MAX rows only a kernel is prepared.

    Only plans made anew can call Functions or leave writing to their tasks.
    """
    has_function = any(isinstance(box, Function) for box in fragment.boxes)
    if rows_out <= KERNEL_ROWS_MAX and records <= PREPARED_RECORDS_MAX and not has_function:
        return ExecutionMode.PREPARED
    return unprepared_mode(records)


def unprepared_mode(records: int) -> ExecutionMode:
    """The mode for a step over so many records whose job cannot be prepared."""
    return (
        ExecutionMode.HANDED_OVER if records <= HANDED_OVER_RECORDS_MAX else ExecutionMode.SCANNED
    )


def rows_out_guess(fragment: Fragment) -> float:
    """Rows out per record in, before the first step: few behind Aggregates, else all."""
    network = fragment.network

    def is_aggregated(port: Port) -> bool:
        if port in fragment.inputs:
            return False
        box = network.box(port.owner)
        behind: Sequence[Port] = [network.port(r, box.name) for r in inputs_of(box)]
        return isinstance(box, Aggregate | Session) or all(is_aggregated(p) for p in behind)

    if all(is_aggregated(port) for port in fragment.outputs.values()):
        return ROWS_OUT_PER_AGGREGATED_RECORD
    return float(len(fragment.outputs))
