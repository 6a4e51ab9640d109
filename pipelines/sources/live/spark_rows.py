"""Rows of a Spark frame as records: selected expressions, and the conversion of their results.

Expressions are checked and compiled as those of a network are: they may use what depends on their
row alone, never raise, and mark the rows on which they fail; these are quarantined. Columns
without an expression are filled by name (`bound_columns`) and converted as in a Parquet file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.language.expressions import compile_expression
from pipelines.language.failure_causes import FailureCause
from pipelines.sources.live.lander import Piece
from pipelines.sources.live.spark_feed import SparkFeed
from pipelines.sources.recorded.bound_columns import Bound, bind_columns
from pipelines.sources.recorded.event_times import declared_unit
from pipelines.sources.recorded.parquet_rows import record_text, rows_of
from pipelines.sources.recorded.recorded_rows import Problem, Rows, Target, make_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

CORRUPT = "_corrupt_record"
_FILE = "_metadata.file_path"
_ORDER_OF_FILES = ("_metadata.file_modification_time", _FILE, "_metadata.file_block_start")
_ORDERS = {"rate": ("value",), "kafka": ("timestamp", "topic", "partition", "offset")}
_TYPES = {"tinyint": "int", "smallint": "int", "float": "double", "timestamp_ntz": "timestamp"}
_PLAIN = re.compile(r"boolean|int|bigint|double|string|binary|date|timestamp|decimal\(\d+,\d+\)")
_SIZED_TEXT = re.compile(r"(var)?char\(\d+\)")
_WIDER = {("int", "bigint")}


@dataclass(frozen=True, slots=True)
class SparkRows:
    """How batches of one source become pieces."""

    target: Target
    bound: tuple[Bound, ...]
    unit: str
    base: tuple[str, ...]
    selected: tuple[str, ...]
    failing: tuple[int, ...]
    ordered: int
    has_files: bool
    has_corrupt: bool
    origin: str

    @classmethod
    def of(cls, target: Target, feed: SparkFeed, schema: StructType) -> SparkRows:
        """Checked against the frame's schema; Refused, naming the source and the column."""
        stream = target.source.name
        given = _columns_of(schema)
        zoneless = {f.name for f in schema.fields if f.dataType.simpleString() == "timestamp_ntz"}
        names = {c.name for c in target.columns}
        for name in feed.columns:
            if name not in names:
                raise Refused(
                    f"the source of {stream} makes column {name!r}, which the network does not "
                    f"declare: it declares {', '.join(sorted(names))}"
                )
        usable = {name: Column(name, type_) for name, type_ in given.items()}
        unmade = tuple(c for c in target.columns if c.name not in feed.columns)
        filled = {b.column.name: b for b in _fill(target, unmade, list(given))}
        selected: list[str] = []
        failing: list[int] = []
        bound: list[Bound] = []
        for at, column in enumerate(target.columns):
            if column.name in filled:
                found = filled[column.name]
                value = _quoted(found.name)
                if found.name in zoneless:
                    _check_zone(target, found.name, "timestamp_ntz")
                    # The session's zone is UTC, so that this is the clock as the source has it.
                    value = f"CAST({value} AS timestamp_ntz)"
                selected.append(f"{value} AS v{at}")
                bound.append(_settled(target, found, given[found.name], f"v{at}"))
                continue
            where = f"the source of {stream}, column {column.name!r}"
            compiled = compile_expression(feed.columns[column.name], usable, where=where)
            if compiled.type != column.type and (compiled.type, column.type) not in _WIDER:
                raise Refused(
                    f"{where}: {feed.columns[column.name]!r} is {compiled.type}, declared "
                    f"{column.type}: cast it"
                )
            selected.append(f"CAST({compiled.sql} AS {column.type}) AS v{at}")
            if compiled.failure is not None:
                selected.append(f"{compiled.failure.number} AS e{at}")
                failing.append(at)
            zone = target.source.time_zone
            bound.append(Bound(column=column, name=f"v{at}", zone=zone))
        order = feed.order if feed.order is not None else _ORDERS.get(feed.format, ())
        for at, text in enumerate(order):
            where = f"the source of {stream}, order"
            selected.append(f"{compile_expression(text, usable, where=where).sql} AS o{at}")
        count = len(order)
        base = [f"CAST({_quoted(n)} AS {t}) AS {_quoted(n)}" for n, t in given.items()]
        if feed.reads_files:
            base += [f"{text} AS _f{at}" for at, text in enumerate(_ORDER_OF_FILES)]
            selected += [f"_f{at} AS o{count + at}" for at in range(len(_ORDER_OF_FILES))]
            selected.append("_f1 AS _file")
            count += len(_ORDER_OF_FILES)
        has_corrupt = feed.reads_files and CORRUPT in given
        if has_corrupt:
            selected.append(f"{CORRUPT} AS _corrupt")
        return cls(
            target, tuple(bound), _unit(target), tuple(base), tuple(selected), tuple(failing),
            count, feed.reads_files, has_corrupt, f"spark {feed.format}",
        )  # fmt: skip

    def selected_from(self, frame: DataFrame) -> DataFrame:
        """What is read of the source's frame; `pieces` takes batches of it."""
        # The files' own columns are to be had here alone: a batch does not know them any more.
        return frame.selectExpr(*self.base).selectExpr(*self.selected)

    def pieces(self, batch: DataFrame, before: int) -> list[Piece]:
        """The records of a batch in order, by file if they come from files.

        `before` is how many rows came before: where there are no files, positions go on from it.
        """
        table: pa.Table = batch.toArrow()
        if self.ordered and table.num_rows:
            keys = [(f"o{at}", "ascending") for at in range(self.ordered)]
            table = table.take(pc.sort_indices(table, sort_keys=keys))
        if not self.has_files:
            return [self._piece(table, self.origin, before)] if table.num_rows else []
        files = np.array(table["_file"].to_pylist(), object)
        cuts = np.flatnonzero(files[1:] != files[:-1]) + 1
        edges = [0, *cuts.tolist(), len(files)] if len(files) else [0]
        return [
            self._piece(table.slice(start, stop - start), _path_of(files[start]), 0)
            for start, stop in pairwise(edges)
        ]

    def _piece(self, table: pa.Table, origin: str, before: int) -> Piece:
        (rows,) = table.combine_chunks().to_batches()
        found = rows_of(self.bound, rows)
        problems = {**self._problems(rows), **found.problems}
        texts = rows.column("_corrupt") if self.has_corrupt else None

        def content(row: int) -> str:
            if texts is not None and texts[row].is_valid:
                return str(texts[row])
            names = [b.column.name for b in self.bound]
            return record_text({n: rows.column(b.name)[row] for n, b in
                                zip(names, self.bound, strict=True)})  # fmt: skip

        records, positions, bad = make_records(
            self.target,
            Rows(found.values, problems),
            self.unit,
            np.arange(before + 1, before + 1 + len(rows)),
            content,
        )
        return Piece(
            origin=origin,
            records=records,
            positions=positions,
            quarantined=tuple(replace(q, origin=origin) for q in bad),
        )

    def _problems(self, rows: pa.RecordBatch) -> dict[int, Problem]:
        problems: dict[int, Problem] = {}
        for at in self.failing:
            causes = rows.column(f"e{at}")
            has_failed = pc.is_valid(causes).to_numpy(zero_copy_only=False)
            name = self.bound[at].column.name
            for row in np.flatnonzero(has_failed).tolist():
                cause = FailureCause(causes[row].as_py())
                problems.setdefault(row, Problem(name, f"the expression failed: {cause.phrase}"))
        if self.has_corrupt:
            is_corrupt = pc.is_valid(rows.column("_corrupt")).to_numpy(zero_copy_only=False)
            problems |= {
                int(row): Problem("", "is no record of the declared schema")
                for row in np.flatnonzero(is_corrupt)
            }
        return problems


def _columns_of(schema: StructType) -> dict[str, str]:
    """The frame's columns of types that records can have, as our types."""
    found: dict[str, str] = {}
    for field in schema.fields:
        spelled = field.dataType.simpleString()
        type_ = "string" if _SIZED_TEXT.fullmatch(spelled) else _TYPES.get(spelled, spelled)
        if _PLAIN.fullmatch(type_):
            found[field.name] = type_
    return found


def _fill(target: Target, columns: Sequence[Column], names: list[str]) -> tuple[Bound, ...]:
    if not columns:
        return ()
    columns_target = Target(target.source, target.file, tuple(columns))
    try:
        return bind_columns(columns_target, names)
    except Refused as error:
        raise Refused(str(error).replace(str(target.file), _place_of(target), 1)) from None


def _place_of(target: Target) -> str:
    return f"the source of {target.source.name}"


def _settled(target: Target, found: Bound, type_: str, name: str) -> Bound:
    conversion = found.conversion
    if conversion is not None and conversion.from_unit is None:
        if type_ not in ("timestamp", "date"):
            raise Refused(
                f"{_place_of(target)} has {found.name!r} as {type_}, whose unit nobody knows: "
                "make "
                f"column {found.column.name!r} by an expression"
            )
        conversion = replace(conversion, from_unit="us")
    return Bound(column=found.column, name=name, conversion=conversion, zone=found.zone)


def _check_zone(target: Target, name: str, type_: str) -> None:
    if target.source.time_zone is None:
        raise Refused(
            f"{_place_of(target)} has {name!r} as {type_}, which has no time zone: declare "
            "time_zone (UTC, +01:00 or Europe/Berlin, for example) in the network"
        )


def _unit(target: Target) -> str:
    """The unit of event time; live records do not show it."""
    unit = declared_unit(target.source)
    type_ = target.columns[target.time_position].type
    if unit is None and type_ not in ("timestamp", "date"):
        raise Refused(
            f"{_place_of(target)} has event time {target.source.time!r} as {type_}: declare "
            "time_unit "
            "(s, ms, us or ns) in the network"
        )
    if type_ == "date":
        _check_zone(target, target.source.time, type_)
    return unit or "us"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _path_of(uri: Any) -> str:
    path = unquote(urlsplit(str(uri)).path)
    return os.fsencode(Path(path)).decode(errors="replace")
