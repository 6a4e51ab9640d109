"""One bucket of a line: what it was and is, what it was computed from, and the rows that changed.

The lineage goes from the row that is live back to landed files, as far as this home knows it: of a
partner's line it knows the rows, and the partner's home the rest. A step that wrote several
buckets read more than one of them needs: what a bucket needs is taken to reach as far before and
behind it as the step read before and behind all of its buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping

from medusa_core.changes import ChangeType, Difference, bucket_changes
from medusa_core.columns import declare_columns
from medusa_core.errors import MedusaError
from medusa_core.first_outputs import delay_ms_of
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.catalog.postgres import rows as catalog_rows
from pipelines.catalog.postgres.certificates import event_of
from pipelines.changes.changed_rows import BucketRows, changed_rows
from pipelines.homes.home import checked_storage
from pipelines.pages.page_home import Snapshot

HOPS_MAX = 5
STEPS_MAX = 40
ROWS_READ_MAX = 6
"""The most rows of one input of one step that are followed; the number beyond is shown."""
FILES_MAX = 5
CHANGES_MAX = 40
VALUE_CHARACTERS_MAX = 200

Row = RowMapping | Mapping[str, Any]
Pair = tuple[list[Any] | None, list[Any] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFigures:
    """`history` has a document for each row that the bucket has or had, the oldest first; `nodes`
    and `edges` are its lineage; `rows` what the last correction changed, None if there is none."""

    range: tuple[int, int]
    history: tuple[dict[str, Any], ...]
    nodes: tuple[dict[str, Any], ...]
    edges: tuple[tuple[str, str], ...]
    is_whole: bool
    rows: dict[str, Any] | None


def read_bucket(home: Snapshot, line: Row, from_us: int) -> BucketFigures:
    """Of the line whose row of `page_stream` is given; `from_us` is where the bucket begins."""
    part = Range(from_us, from_us + line["width_us"])
    events = home.rows("line_history", **_of(line), from_us=part.from_us, to_us=part.to_us)
    lineage = _Lineage(home)
    lineage.add(line["stream"], line["participant"], line["replica"], None, part)
    return BucketFigures(
        range=(part.from_us, part.to_us),
        history=tuple(_was(row) for row in events),
        nodes=tuple(lineage.nodes.values()),
        edges=tuple(lineage.edges),
        is_whole=lineage.is_whole,
        rows=_changed(home, line, part, events),
    )


def _of(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("stream", "participant", "replica")}


def _was(row: RowMapping) -> dict[str, Any]:
    return {
        "from_us": row["from_us"],
        "to_us": row["to_us"],
        "stability": row["stability"],
        "version": row["begin_version"],
        "replaced_by": row["end_version"],
        "missing": list(row["missing"]),
        "committed_at_ms": row["committed_at_ms"],
        "delay_ms": delay_ms_of(event_of(row)),
        "rows": row["rows"],
    }


class _Lineage:
    """The graph as it grows: rows of lines, landed files, and which were read for which."""

    def __init__(self, home: Snapshot) -> None:
        self._home = home
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: list[tuple[str, str]] = []
        self.is_whole = True

    def add(self, stream: str, participant: str, replica: int, version: int | None, part: Range,
            below: str | None = None, hops: int = HOPS_MAX) -> None:  # fmt: skip
        """The rows of a line at a version (None: the live ones) in a range, and what is behind."""
        found = self._home.rows(
            "page_read_segments", stream=stream, participant=participant, replica=replica,
            version=version, from_us=part.from_us, to_us=part.to_us, most=ROWS_READ_MAX + 1,
        )  # fmt: skip
        self.is_whole &= len(found) <= ROWS_READ_MAX
        for row in found[:ROWS_READ_MAX]:
            id_ = f"{stream} {participant}/{replica} {row['version']} {row['from_us']}"
            is_new = id_ not in self.nodes
            if is_new and len(self.nodes) >= STEPS_MAX:
                self.is_whole = False
                return
            if is_new:
                self.nodes[id_] = _node(id_, stream, participant, replica, row)
            if below is not None and (id_, below) not in self.edges:
                self.edges.append((id_, below))
            need = Range(row["from_us"], row["to_us"]).intersection(part)
            if is_new and need is not None:
                self._follow(id_, stream, participant, replica, row, need, hops)

    def _follow(self, id_: str, stream: str, participant: str, replica: int, row: Row,
                need: Range, hops: int) -> None:  # fmt: skip
        reads = self._home.rows("page_commit_reads", commit_id=row["commit_id"], stream=stream)
        if not reads:
            self._land(id_, stream, participant, replica, need)
        elif hops == 0:
            self.is_whole = False
        for read in reads if hops else ():
            reach = _reach(reads, read["input"], row, need)
            requested = Range(read["from_us"], read["to_us"]).intersection(reach)
            if requested is not None:
                self.add(read["input"], read["participant"], read["replica"],
                         read["read_version"], requested, id_, hops - 1)  # fmt: skip

    def _land(self, id_: str, stream: str, participant: str, replica: int, need: Range) -> None:
        if participant != self._home.participant or replica < 0:
            return
        files = self._home.rows(
            "page_landed_files", stream=stream, from_us=need.from_us, to_us=need.to_us,
            most=FILES_MAX,
        )  # fmt: skip
        self.nodes[id_]["landed"] = [_file(row["file"]) for row in files]
        self.nodes[id_]["landed_in_all"] = files[0]["in_all"] if files else 0


def _reach(reads: Any, input_: str, row: Row, need: Range) -> Range:
    """How far a part of a step's output reaches into one of its inputs."""
    of_input = [read for read in reads if read["input"] == input_]
    before = max(row["hull_from_us"] - min(read["from_us"] for read in of_input), 0)
    behind = max(max(read["to_us"] for read in of_input) - row["hull_to_us"], 0)
    return Range(need.from_us - before, need.to_us + behind)


def _node(id_: str, stream: str, participant: str, replica: int, row: Row) -> dict[str, Any]:
    return {
        "id": id_,
        "stream": stream,
        "participant": participant,
        "replica": replica,
        "version": row["version"],
        "from_us": row["from_us"],
        "to_us": row["to_us"],
        "stability": row["stability"],
        "is_live": row["is_live"],
        "rows": row["rows"],
        "fragment": row["fragment"],
        "cause": row["cause"],
        "plan": row["plan"],
        "commit": row["commit_id"],
        "committed_at_ms": row["committed_at_ms"],
        "files": [_file(one) for one in (row["files"] or ())[:FILES_MAX]],
        "files_in_all": len(row["files"] or ()),
        "landed": [],
        "landed_in_all": 0,
    }


def _file(found: Any) -> dict[str, Any]:
    path, size_bytes, sha256, rows = found
    return {"path": path, "size_bytes": size_bytes, "sha256": sha256, "rows": rows}


# ---------------------------------------------------------------- rows of a correction


def _changed(home: Snapshot, line: Row, part: Range, events: Any) -> dict[str, Any] | None:
    """The rows of a bucket before and after it was replaced last."""
    versions = [row["end_version"] for row in events if row["end_version"] is not None
                and any(o["begin_version"] == row["end_version"] for o in events)]  # fmt: skip
    if not versions:
        return None
    version = max(versions)
    stream = StreamName(line["stream"])
    sides = []
    for as_of in (version - 1, version):
        rows = home.rows("segments_as_of", **_of(line), from_us=part.from_us, to_us=part.to_us,
                         as_of=as_of)  # fmt: skip
        sides.append(
            tuple(catalog_rows.segment_of(r, stream, catalog_rows.producer_of(r)) for r in rows)
        )
    document: dict[str, Any] = {
        "version": version,
        "columns": [name for name, _ in line["columns"]],
        "changes": [],
        "in_all": 0,
        "problem": None,
    }
    try:
        changes = list(_pairs(home, line, part, Difference(before=sides[0], after=sides[1])))
    except MedusaError as error:
        return {**document, "problem": str(error)}
    shown = [{"before": before, "after": after} for before, after in changes[:CHANGES_MAX]]
    return {**document, "changes": shown, "in_all": len(changes)}


def _pairs(home: Snapshot, line: Row, part: Range, difference: Difference) -> Iterator[Pair]:
    """Rows that went and came, side by side where they agree in the key."""
    columns = declare_columns(f"stream {line['stream']}", dict(line["columns"]))
    rows_of = BucketRows(checked_storage(home.directory, home.participant), columns)
    key = tuple(line["key_columns"]) or tuple(c.name for c in columns if c.type == "string")
    for change in bucket_changes(difference, part):
        waiting: list[Any] | None = None
        for row in changed_rows(change, rows_of, columns, key):
            values = _shown(row.values)
            match row.type:
                case ChangeType.PROMOTE:
                    continue
                case ChangeType.UPDATE_PREIMAGE:
                    waiting = values
                case ChangeType.UPDATE_POSTIMAGE:
                    yield waiting, values
                case ChangeType.DELETE:
                    yield values, None
                case ChangeType.INSERT:
                    yield None, values


def _shown(values: Any) -> list[Any] | None:
    """Values of a row as JSON; what has no form there as text, and long text cut."""
    if values is None:
        return None
    return [
        value if value is None or isinstance(value, bool | int | float)
        else str(value)[:VALUE_CHARACTERS_MAX]
        for value in values
    ]  # fmt: skip
