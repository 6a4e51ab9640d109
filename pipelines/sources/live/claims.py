"""The stream of a record, where the streams of one feed are distinguished by a column's value.

The column is dictionary-encoded, so a record costs a look-up in an array, however many streams
there are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from medusa_core.errors import Refused
from medusa_core.network import Source
from medusa_core.suggest import did_you_mean
from pipelines.sources.arrow_lateness import Int64s
from pipelines.sources.live.declared_fields import Where

TYPES = ("string", "int", "bigint", "boolean", "date")
Value = str | int | bool | date


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of a table by member: `rows[bounds[m]:bounds[m + 1]]` are those of member m, in order.

    `members` is parallel to `rows`; `unclaimed` counts the rows that are nobody's.
    """

    rows: Int64s
    members: Int64s
    bounds: Int64s
    unclaimed: int


class Claims:
    """Which value belongs to which member; several members may claim one value."""

    def __init__(self, column: str, values: Sequence[Value]) -> None:
        self._column = column
        self._members = len(values)
        # Almost always one layer: another one for each further member that claims the same value.
        self._layers: list[dict[Value, int]] = []
        for member, value in enumerate(values):
            for layer in self._layers:
                if value not in layer:
                    layer[value] = member
                    break
            else:
                self._layers.append({value: member})

    def split(self, table: pa.Table) -> Split:
        """Deal the rows out to the members."""
        encoded = table[self._column].combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        known = encoded.dictionary.to_pylist()
        codes = np.asarray(encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False))
        dealt = [
            np.array([*(layer.get(value, -1) for value in known), -1], np.int64)[codes]
            for layer in self._layers
        ]
        members = np.concatenate(dealt)
        rows = np.tile(np.arange(table.num_rows), len(dealt))
        claimed = np.flatnonzero(members >= 0)
        order = claimed[np.argsort(members[claimed], kind="stable")]
        return Split(
            rows=rows[order],
            members=members[order],
            bounds=np.searchsorted(members[order], np.arange(self._members + 1)),
            unclaimed=int(np.count_nonzero(dealt[0] < 0)),
        )


def claimed_value(source: Source, where: Where) -> Value:
    """The value in the column's type; Refused if the source has no such column or value."""
    sentence = f"the source of {source.name} has where {{{where.column}: {where.value!r}}}"
    type_ = source.columns.get(where.column)
    if type_ is None:
        columns = ", ".join(source.columns)
        hint = did_you_mean(where.column, source.columns, f"name one of {columns}")
        raise Refused(f"{sentence}, but the network declares no such column: {hint}")
    if type_ not in TYPES:
        raise Refused(
            f"{sentence}, but {where.column} is {type_}: choose a column that is {', '.join(TYPES)}"
        )
    found = _value(type_, where.value)
    if found is None:
        raise Refused(f"{sentence}, which is no {type_}: write one")
    return found


def _value(type_: str, given: str | int | bool) -> Value | None:
    match type_, given:
        case "string", bool():
            return None
        case "string", str() | int():
            return str(given)
        case "boolean", bool():
            return given
        case "boolean", "true" | "false":
            return given == "true"
        case "date", str():
            try:
                return date.fromisoformat(given)
            except ValueError:
                return None
        case (("int" | "bigint"), str() | int()) if not isinstance(given, bool):
            if not re.fullmatch(r"-?[0-9]{1,19}", str(given)):
                return None
            bits = 31 if type_ == "int" else 63
            return int(given) if -(2**bits) <= int(given) < 2**bits else None
        case _:
            return None
