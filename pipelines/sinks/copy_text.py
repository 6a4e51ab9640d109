"""Rows as a file that COPY reads: text is made on demand, a batch at a time.

The text is that of COPY's own format, not CSV, in which a line of `\\.` ends the data for some
servers, also within a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.sinks.target import Rows
from pipelines.storage.csv_export import field_texts, unspeakable

_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


class RowsFile:
    """Has `read`, all that COPY needs; what goes wrong in it is kept, for COPY would hide it."""

    def __init__(self, rows: Rows, columns: Sequence[Column], *, replaces_nul: bool) -> None:
        self._lines = self._texts(rows, columns, replaces_nul)
        self._rest = memoryview(b"")
        self._error: BaseException | None = None

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        try:
            while not self._rest:
                self._rest = memoryview(next(self._lines))
        except StopIteration:
            return b""
        except BaseException as error:
            self._error = error
            raise
        size = len(self._rest) if size < 0 else size
        found, self._rest = self._rest[:size], self._rest[size:]
        return bytes(found)

    @contextmanager
    def errors_first(self) -> Iterator[None]:
        """Raise what went wrong in reading rather than what COPY made of it."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    @staticmethod
    def _texts(rows: Rows, columns: Sequence[Column], replaces_nul: bool) -> Iterator[bytes]:
        for batch in rows:
            yield from copy_lines(batch, columns, replaces_nul=replaces_nul)


def copy_lines(batch: pa.RecordBatch, columns: Sequence[Column], *,
               replaces_nul: bool) -> Iterator[bytes]:  # fmt: skip
    """The rows of a batch as COPY in Postgres reads text.

    U+0000, which no text there can hold, becomes U+FFFD or is refused, naming the column.
    """
    texts = []
    for column in columns:
        values = batch[column.name]
        reason = unspeakable(values, column.type)
        if column.type == "string" and reason is None:
            values, reason = _without_nul(values, replaces_nul=replaces_nul)
        if reason:
            raise Refused(f"column {column.name!r} has {reason}: it cannot be delivered")
        texts.append(pc.fill_null(_field(values, column.type), "\\N"))
    lines = pc.binary_join_element_wise(*texts, "\t")
    yield "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _field(values: Any, type_: str) -> Any:
    if type_ == "binary":
        listed = [None if v is None else f"\\\\x{v.hex()}" for v in values.to_pylist()]
        return pa.array(listed, pa.string())
    if type_ != "string":
        return field_texts(values, type_)
    for character, escaped in _ESCAPED:
        values = pc.replace_substring(values, character, escaped)
    return values


def _without_nul(values: Any, *, replaces_nul: bool) -> tuple[Any, str | None]:
    if not pc.any(pc.match_substring(values, "\0")).as_py():
        return values, None
    if replaces_nul:
        return pc.replace_substring(values, "\0", "\ufffd"), None
    return values, "a text with U+0000, which Postgres does not hold (nul: replace delivers U+FFFD)"
