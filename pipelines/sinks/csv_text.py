"""Rows as CSV text, for files that people open.

As `pipelines.storage.csv_export` spells them: a field is quoted only if it must be (RFC 4180),
lines end in LF, NULL is nothing at all and empty text `""`, times are ISO 8601 in UTC with
microseconds only where there are some, doubles the shortest text that reads back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.storage.csv_export import field_texts, unspeakable

FORMULA = "^[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]"
"""The beginnings of texts that a spreadsheet takes for formulas."""


def csv_header(names: Sequence[str]) -> bytes:
    """The line of names."""
    return (",".join(names) + "\n").encode()


def csv_lines(batch: pa.RecordBatch, columns: Sequence[Column], *,
              guarded: bool = False) -> Iterator[bytes]:  # fmt: skip
    """The rows of a batch over the columns, more than one, as lines.

    `guarded`: text that a spreadsheet would take for a formula gets a ' before it. Raises Refused,
    naming the column, if a value has no spelling.
    """
    assert len(columns) > 1, "a line of one NULL would be no record"
    texts = []
    for column in columns:
        values = batch[column.name]
        reason = unspeakable(values, column.type)
        if reason:
            raise Refused(f"column {column.name!r} has {reason}: it cannot be delivered")
        if guarded and column.type == "string":
            values = _guarded(values)
        texts.append(pc.fill_null(field_texts(values, column.type), ""))
    lines = pc.binary_join_element_wise(*texts, ",")
    yield "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _guarded(values: Any) -> Any:
    is_formula = pc.fill_null(pc.match_substring_regex(values, FORMULA), False)
    if not pc.any(is_formula).as_py():
        return values
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", values, ""), values)
