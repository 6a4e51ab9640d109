"""A sink as declared: a folder of Parquet or CSV files, or a table in Postgres, and its pace.

A declaration is read from a stream's contract as a mapping of plain values, or from the catalog
as its JSON text, and is read strictly: an unknown field, or a value of another kind, is refused
with the stream, the field and what to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, floor_us
from medusa_core.names import StreamName, check_name
from medusa_core.sinks import SinkRecord
from medusa_core.suggest import did_you_mean
from pipelines.base.foreign_documents import parse_json
from pipelines.base.time_text import duration, parse_time_us
from pipelines.sinks.addresses import check_address
from pipelines.sources.live.declared_fields import Fields

ORIGIN, NOW = "origin", "now"
FINAL, ALL = "final", "all"
KEEP, GUARD = "keep", "guard"
REFUSE, REPLACE = "refuse", "replace"
APPLY, STOP = "apply", "stop"
HOLD_US = 7 * 86_400_000_000
HOLD_US_MAX = 31 * 86_400_000_000
ROWS_MAX = 250_000
ROWS_MAX_MAX = 10_000_000
OWN_SCHEMAS = ("medusa", "medusa_market", "medusa_api", "information_schema")

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """From when on a sink delivers, and in which pieces.

    `begins` is `origin`, `now` or a time as written. `every_us`: whole multiples of so much event
    time only (None: as soon as there is something). `hold_ms`: for how long what it has yet to
    deliver is kept without a sign of it. `rows_max`: of one file or transaction, unless one bucket
    has more.
    """

    begins: str = ORIGIN
    every_us: int | None = None
    hold_ms: int = HOLD_US // 1_000
    rows_max: int = ROWS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSink:
    """Files of whole buckets in a folder; `kind` is parquet or csv, `formulas` keep or guard."""

    kind: str
    path: Path
    formulas: str
    pace: Pace

    @property
    def target(self) -> str:
        """Where it delivers, for people."""
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink:
    """A table in a Postgres database; `url` names what is secret in it as `${MEDUSA_SINK_NAME}`.

    `key` None is that of the stream. `stability` all: tentative rows too, until they are corrected.
    `nul` says whether U+0000 in a text, which Postgres does not hold, is refused or replaced.
    `on_revision` says whether revised rows replace those that were delivered, or the sink stops
    (None: as far as the table has a key).
    """

    url: str
    schema: str
    table: str
    key: tuple[str, ...] | None
    stability: str
    nul: str
    pace: Pace
    on_revision: str | None = None

    @property
    def kind(self) -> str:
        """The word of the declaration."""
        return "postgres"

    @property
    def target(self) -> str:
        """Where it delivers, for people."""
        return f"table {self.schema}.{self.table}"

    @property
    def takes_tentative(self) -> bool:
        """Whether rows that are not final yet are delivered, and corrected later."""
        return self.stability == ALL


SinkDeclaration = FolderSink | TableSink


class SinkFields(Fields):
    """The fields of a sink's declaration."""

    @property
    def stream(self) -> StreamName:
        return self._stream

    def refused(self, field: str, value: object, expected: str) -> Refused:
        return Refused(f"the sink of {self._stream} has {field} {value!r}: write {expected}")

    def choice(self, field: str, words: tuple[str, ...]) -> str:
        """One of some words, the first of them by default."""
        return self.optional_choice(field, words) or words[0]

    def optional_choice(self, field: str, words: tuple[str, ...]) -> str | None:
        """One of some words; None if the field is not there."""
        value = self.take(field)
        if value is not None and value not in words:
            raise self.refused(field, value, " or ".join(words))
        return None if value is None else str(value)

    def check_all_known(self) -> None:
        for field in self._left:
            raise Refused(
                f"the sink of {self._stream} has a field {field!r} that is not known: "
                + did_you_mean(field, self._known, f"write {', '.join(self._known)}")
            )

    def pace(self) -> Pace:
        begins = self.take("from")
        if begins is None:
            begins = ORIGIN
        if isinstance(begins, bool) or not isinstance(begins, str | int):
            raise self.refused("from", begins, "origin, now, or a time such as 2026-01-01T00:00Z")
        begins = str(begins)
        if begins not in (ORIGIN, NOW):
            parse_time_us(f"the sink of {self._stream} has from", begins)
        hold_us = self.duration_us("hold") or HOLD_US
        if not 1_000 <= hold_us <= HOLD_US_MAX:
            raise self.refused("hold", duration(hold_us), "a duration from 1ms to 31d")
        rows_max = self.whole("rows_max", ROWS_MAX, 1, ROWS_MAX_MAX)
        assert rows_max is not None
        return Pace(
            begins=begins,
            every_us=self.duration_us("every"),
            hold_ms=hold_us // 1_000,
            rows_max=rows_max,
        )


def parse_sink(stream: StreamName, document: Mapping[str, object] | str) -> SinkDeclaration:
    """The declaration of a sink of `stream`, from plain values or their JSON text.

    Raises Refused, naming the stream and the field, for anything that is not one.
    """
    if isinstance(document, str):
        document = parse_json(document, f"a sink of {stream}", "declare it again")
    if not isinstance(document, Mapping):
        raise Refused(f"a sink of {stream} is {document!r}: write a mapping with its kind")
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in _PARSERS:
        hint = did_you_mean(kind, _PARSERS, f"write one of {', '.join(_PARSERS)}")
        raise Refused(f"the sink of {stream} has kind {kind!r}: {hint}")
    return _PARSERS[kind](kind, SinkFields(stream, document))


def declaration_of(sink: SinkRecord) -> SinkDeclaration:
    """The declaration of a sink in the catalog."""
    return parse_sink(sink.stream, sink.document)


def document_of(plain: Mapping[str, object]) -> str:
    """The text of a declaration as the catalog keeps it."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def check_sink(
    stream: str,
    declaration: SinkDeclaration,
    columns: Mapping[str, str],
    width_us: int,
    key: tuple[str, ...],
) -> None:
    """Refuse a sink that does not go with its stream: its key columns, the width of its buckets."""
    every_us = declaration.pace.every_us
    if every_us is not None and every_us % width_us:
        raise Refused(
            f"the sink of {stream} delivers every {duration(every_us)}, but its buckets are of "
            f"{duration(width_us)}: write a multiple of that"
        )
    if isinstance(declaration, FolderSink):
        return
    for name in declaration.key or ():
        if name not in columns:
            hint = did_you_mean(name, columns, f"it has {', '.join(columns)}")
            raise Refused(f"the sink of {stream} has key {name!r}, which is no column: {hint}")
    if declaration.on_revision == APPLY and not key_of(declaration, key):
        raise Refused(
            f"the sink of {stream} is to apply revisions, but has no key by which rows could be "
            "replaced: write key: [COLUMN, …] or on_revision: stop"
        )
    if declaration.takes_tentative and not key_of(declaration, key):
        raise Refused(
            f"the sink of {stream} is to take tentative rows, but has no key by which they could "
            "be corrected: write key: [COLUMN, …] or leave stability out"
        )


def key_of(declaration: SinkDeclaration, key: tuple[str, ...]) -> tuple[str, ...]:
    """The key by which rows are replaced in a table: its own, else the stream's; () for none."""
    if isinstance(declaration, FolderSink):
        return ()
    return key if declaration.key is None else declaration.key


def begins_at_us(pace: Pace, now_us: int | None, width_us: int) -> int:
    """From when on a sink delivers; `now_us` is where the stable prefix ends, None if not begun."""
    if pace.begins == ORIGIN or (pace.begins == NOW and now_us is None):
        return BEGINNING_US
    if pace.begins == NOW:
        assert now_us is not None
        return now_us
    return floor_us(parse_time_us("from", pace.begins), width_us)


def same_target(one: SinkDeclaration, other: SinkDeclaration) -> bool:
    """Whether two declarations write into the same place, as far as their words tell."""
    match one, other:
        case FolderSink(), FolderSink():
            first, second = one.path, other.path
            return first.is_relative_to(second) or second.is_relative_to(first)
        case TableSink(), TableSink():
            return (one.url, one.schema, one.table) == (other.url, other.schema, other.table)
        case _:
            return False


def _folder(kind: str, fields: SinkFields) -> FolderSink:
    path = fields.path("path", fields.take("path"))
    formulas = fields.choice("formulas", (KEEP, GUARD)) if kind == "csv" else KEEP
    fields.choice("on_revision", (STOP,))  # a file never changes
    pace = fields.pace()
    fields.check_all_known()
    return FolderSink(kind=kind, path=path, formulas=formulas, pace=pace)


def _table(kind: str, fields: SinkFields) -> TableSink:
    url = fields.take("url")
    if not isinstance(url, str) or not url.strip():
        raise Refused(f"the sink of {fields.stream} has no url: write the name of a variable that "
                      "holds it, such as ${MEDUSA_SINK_URL}")  # fmt: skip
    check_address(fields.stream, url)
    given = fields.take("table")
    schema, dot, table = given.rpartition(".") if isinstance(given, str) else ("", "", "")
    schema = schema if dot else "public"
    if not (_IDENTIFIER.fullmatch(schema) and _IDENTIFIER.fullmatch(table)):
        raise fields.refused("table", given, "a name of letters, digits and _, such as public.busy")
    if schema in OWN_SCHEMAS or schema.startswith("pg_") or table.startswith("medusa_sink"):
        raise fields.refused("table", given, "a table that neither Medusa nor Postgres keeps")
    key = fields.take("key")
    if key is not None:
        if not isinstance(key, list | tuple) or not key or len(set(map(str, key))) < len(key):
            raise fields.refused("key", key, "a list of columns, each once, such as [orig_h]")
        key = tuple(_column(fields, name) for name in key)
    stability = fields.choice("stability", (FINAL, ALL))
    nul = fields.choice("nul", (REFUSE, REPLACE))
    on_revision = fields.optional_choice("on_revision", (APPLY, STOP))
    pace = fields.pace()
    fields.check_all_known()
    return TableSink(
        url=url, schema=schema, table=table, key=key, stability=stability, nul=nul, pace=pace,
        on_revision=on_revision,
    )  # fmt: skip


def _column(fields: SinkFields, name: object) -> str:
    if not isinstance(name, str):
        raise fields.refused("key", name, "the name of a column")
    return check_name("key column", name)


_PARSERS: Mapping[str, Callable[[str, SinkFields], SinkDeclaration]] = {
    "parquet": _folder,
    "csv": _folder,
    "postgres": _table,
}
