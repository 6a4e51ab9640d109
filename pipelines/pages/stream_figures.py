"""What the page of a stream reads of one home, in a number of statements that does not grow.

Of a line with a million segments it reads cells that the database has summed up, and the newest
answers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.first_outputs import FirstOutput, first_outputs
from medusa_core.grid import FOREVER_US, Range
from pipelines.catalog.postgres.certificates import event_of
from pipelines.pages.page_home import Snapshot
from pipelines.pages.time_range import Cells, TimeRange, cells_of
from pipelines.quality.window_pages import FOLDER, window_pages

ANSWERS_MAX = 300
"""So many of the newest rows in the range are looked at for the delays of first answers."""
REPLACED_MAX = 50_000
KINDS = ("stable", "corrected", "revised", "tentative", "gap")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFigures:
    """Of each cell how much event time is of each kind, in microseconds; and the answers."""

    cells: Cells
    covered_us: tuple[Mapping[str, int], ...]
    is_cut: bool
    answers: tuple[FirstOutput, ...]
    answers_from_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """A stream of a home, by the line that was asked for, or the one that this home reads.

    `lines` has a row for each line; `line` is None if there is none yet, `timeline` too if it has
    no rows.
    """

    home: str
    lines: tuple[Row, ...]
    line: Row | None
    timeline: TimelineFigures | None
    missing: tuple[Row, ...]
    recalls: tuple[Row, ...]
    makers: tuple[Row, ...]
    readers: tuple[Row, ...]
    grants: tuple[Row, ...]
    sold: tuple[Row, ...]
    quarantine: tuple[Row, ...]
    certificates: tuple[Row, ...]


def read_stream(
    home: Snapshot, stream: str, line: str | None, requested: TimeRange
) -> StreamFigures | None:
    """None if the home has no such stream. `line` is PARTICIPANT/REPLICA."""
    rows = _rows(home, "page_stream", stream=stream)
    if not rows:
        return None
    lines = tuple(row for row in rows if row["line_id"] is not None)
    chosen = next((row for row in lines if line in (None, line_name(row))), None)
    timeline = _timeline(home, chosen, requested) if chosen is not None else None
    missing: tuple[Row, ...] = ()
    recalls: tuple[Row, ...] = ()
    if chosen is not None:
        recalls = _rows(home, "page_recalls", line_id=chosen["line_id"])
    if chosen is not None and timeline is not None and chosen["tentative_us"] is not None:
        missing = _rows(home, "page_missing", **_part(chosen, timeline.cells))
    return StreamFigures(
        home=rows[0]["home"],
        lines=lines or rows,
        line=chosen,
        timeline=timeline,
        missing=missing,
        recalls=recalls,
        makers=_rows(home, "page_makers", stream=stream),
        readers=_rows(home, "page_readers", stream=stream),
        grants=_rows(home, "page_grants", stream=stream),
        sold=_rows(home, "page_sold", stream=stream),
        quarantine=_rows(home, "page_quarantine", stream=stream),
        certificates=tuple(
            {**row, "pages": _pages(home, stream, row)}
            for row in _rows(home, "page_certificates", stream=stream)
        ),
    )


def _pages(home: Snapshot, stream: str, certificate: Row) -> list[tuple[str, str]]:
    """The pages of the checked window, by the table that each shows, below MEDUSA_DIR."""
    window = Range(certificate["from_us"], certificate["to_us"])
    folder = home.directory / FOLDER
    found = window_pages(folder, home.participant, stream, certificate["suite"], window)
    return [(table, page.relative_to(home.directory).as_posix()) for table, page in found]


def line_name(row: Row) -> str:
    """A line in an address."""
    return f"{row['participant']}/{row['replica']}"


def _rows(home: Snapshot, name: str, **values: Any) -> tuple[Row, ...]:
    """Plain values: two readings are compared."""
    return tuple(dict(row) for row in home.rows(name, **values))


def _part(line: Row, cells: Cells) -> dict[str, Any]:
    return {"line_id": line["line_id"], "from_us": cells.from_us, "to_us": cells.to_us}


def _timeline(home: Snapshot, line: Row, requested: TimeRange) -> TimelineFigures | None:
    if line["live_to_us"] is None:
        return None
    ends_us = _end_of(line)
    cells = cells_of(requested, min(line["live_from_us"], ends_us), ends_us, line["width_us"])
    part = _part(line, cells)
    covered: list[dict[str, int]] = [{} for _ in range(cells.count)]
    for row in home.rows("page_timeline", **part, **_whole(line, ends_us), cell_us=cells.cell_us):
        covered[row["cell"]][row["stability"]] = row["covered_us"]
    for cell in covered:
        # What has no hole and is not tentative or lost is stable.
        whole_us, taken_us = cell.pop("whole", 0), cell.pop("taken", 0)
        cell["stable"] = cell.get("stable", 0) + whole_us - taken_us
    replaced = home.rows("page_corrected", **part, most=REPLACED_MAX)
    for row in replaced:
        _spread(covered, cells, row["kind"], row["from_us"], row["to_us"])
    answers_from_us = home.value("page_newest_start", **part, most=ANSWERS_MAX)
    return TimelineFigures(
        cells=cells,
        covered_us=tuple(map(_apart, covered)),
        is_cut=any(row["looked_at"] >= REPLACED_MAX for row in replaced),
        answers=_answers(home, line, answers_from_us, cells.to_us),
        answers_from_us=answers_from_us,
    )


def _whole(line: Row, ends_us: int) -> dict[str, int]:
    """Where live rows have no hole: from the first that nothing may be trimmed behind, up to the
    line's boundary."""
    from_us = max(line["live_from_us"], line["trimmed_us"] or line["live_from_us"])
    to_us = min(line["boundary_us"] if line["boundary_us"] is not None else from_us, ends_us)
    return {"whole_from_us": from_us, "whole_to_us": max(from_us, to_us)}


def _end_of(line: Row) -> int:
    """Where the newest live row ends; of one without an end, where the line's boundary is."""
    end_us: int = line["live_to_us"]
    if end_us == FOREVER_US:
        end_us = line["end_us"] or line["boundary_us"] or line["live_from_us"]
    return end_us


def _spread(covered: Sequence[dict[str, int]], cells: Cells, kind: str,
            from_us: int, to_us: int) -> None:  # fmt: skip
    """Add a range to the cells that it is in."""
    first = max((from_us - cells.from_us) // cells.cell_us, 0)
    last = min((to_us - 1 - cells.from_us) // cells.cell_us, cells.count - 1)
    for at in range(first, last + 1):
        begins_us = cells.from_us + at * cells.cell_us
        inside = min(to_us, begins_us + cells.cell_us) - max(from_us, begins_us)
        covered[at][kind] = covered[at].get(kind, 0) + inside


def _apart(cell: Mapping[str, int]) -> Mapping[str, int]:
    """Kinds that share no event time: what was corrected or revised is final as well."""
    final = cell.get("stable", 0) + cell.get("gap", 0)
    revised = min(cell.get("revised", 0), final)
    corrected = min(cell.get("corrected", 0), final - revised)
    # A correction may have ended in a gap: that is shown as the gap that it is.
    gap = cell.get("gap", 0)
    stable = max(final - gap - revised - corrected, 0)
    changed = final - gap - stable
    revised = min(revised, changed)
    found = {"stable": stable, "corrected": changed - revised, "revised": revised,
             "tentative": cell.get("tentative", 0), "gap": gap}  # fmt: skip
    return {kind: length for kind, length in found.items() if length > 0}


def _answers(home: Snapshot, line: Row, from_us: int, to_us: int) -> tuple[FirstOutput, ...]:
    rows = home.rows(
        "line_history", stream=line["stream"], participant=line["participant"],
        replica=line["replica"], from_us=from_us, to_us=to_us,
    )  # fmt: skip
    return tuple(first_outputs(Range(from_us, to_us), [event_of(row) for row in rows]))
