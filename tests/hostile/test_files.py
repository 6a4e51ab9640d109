"""Recorded files of any content: the good records land, the others go aside, or one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medusa_core.errors import MedusaError
from pipelines.sources.recorded.reader import read_recorded_file
from tests.hostile.cases import log_files, text_files, whole_files
from tests.hostile.cases.shapes import FileCase
from tests.hostile.judging import a_sentence, fit_for_a_terminal, in_time
from tests.sweeps import long_but

CASES = (
    *text_files.RECORDS, *text_files.NUMBERS, *text_files.TIMES, *whole_files.HEADERS,
    *whole_files.ARCHIVES, *whole_files.PARQUET, *log_files.JSON, *log_files.ZEEK,
    *whole_files.DECLARATIONS,
)  # fmt: skip
ONE_IN_FOUR = CASES[::4]
FEW_FIRST = long_but(len(ONE_IN_FOUR), [*ONE_IN_FOUR, *(c for c in CASES if c not in ONE_IN_FOUR)])


@pytest.mark.parametrize("case", FEW_FIRST, ids=lambda case: case.name)
def test_a_file_lands_or_quarantines_each_record_or_is_refused_in_a_sentence(
    case: FileCase, tmp_path: Path
) -> None:
    file = case.written(tmp_path)
    if case.refused is not None:
        with in_time(), pytest.raises(MedusaError) as refused:
            list(read_recorded_file(case.source, file))
        a_sentence(str(refused.value), case.refused, exit_code=refused.value.exit_code)
        fit_for_a_terminal(str(refused.value))
    else:
        with in_time():
            chunks = list(read_recorded_file(case.source, file))
        quarantined = [record for chunk in chunks for record in chunk.quarantined]
        told = [(record.position, record.field, record.reason) for record in quarantined]
        assert sum(chunk.records.num_rows for chunk in chunks) == case.landed, told
        assert len(told) == len(case.quarantined), told
        for (position, field, reason), expected in zip(told, case.quarantined, strict=True):
            assert position == expected[0]
            assert re.fullmatch(expected[1], field), told
            assert re.search(expected[2], reason), told
        assert all(len(record.content.encode()) <= 3 * 1_024 for record in quarantined)
    assert [path.name for path in tmp_path.iterdir()] == [case.file], "something was written"
