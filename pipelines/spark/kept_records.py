"""The records that a step keeps of what it reads, where its lineage has a drop rate.

Whichever engine computes the step is given the same records (`medusa_core.drops.keeping`): they are
read and chosen here, in the driver, and handed over.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from medusa_core.drops.keeping import seed_of, threshold_of
from medusa_core.segments import drop_rate_of
from pipelines.spark.inputs import InputRecords, read_table
from pipelines.storage.arrow_digests import mixed, row_hashes

if TYPE_CHECKING:
    from medusa_core.decide import ComputeStep


def has_drops(step: ComputeStep) -> bool:
    """Whether the step leaves out some of the records that it reads."""
    return any(read.drop_rate for read in step.reads)


def kept_records(root: Path, step: ComputeStep, records: InputRecords) -> InputRecords:
    """What the step keeps of the records of one input."""
    rate = drop_rate_of(read for read in step.reads if read.input == records.stream)
    if not rate or not records.rows:
        return records
    table = read_table(root, records)
    is_kept = rows_kept(table, records, 1 - rate, step.fragment.plan)
    return replace(records, parts=(), given=table.filter(pa.array(is_kept)), is_thinned=True)


def rows_kept(
    table: pa.Table, records: InputRecords, share: float, plan: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For every row whether it is kept at a share."""
    threshold = threshold_of(share)
    if threshold >= 1 << 64:
        return np.ones(table.num_rows, np.bool_)
    hashes, _ = row_hashes(table, records.columns)
    return mixed(hashes ^ np.uint64(seed_of(plan))) < np.uint64(threshold)
