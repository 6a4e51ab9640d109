"""The suites: for each law, tables of facts and the expectations that Great Expectations checks.

A row of a table is something that can be wrong: a column, a bucket, a piece of the window, a
version, a first arrival. The tables are pandas', never Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from medusa_core.certificates import Suite
from medusa_core.segments import Stability
from pipelines.quality.differences import differences, differing_columns
from pipelines.quality.frames import HOLE, arrivals_frame, pieces_frame, versions_frame
from pipelines.quality.window_facts import LANDED, Facts

TITLES = {
    Suite.CONVERGED: "L2: final rows and the types of their columns equal what is recomputed from "
    "the records that landed.",
    Suite.COMPLETE: "L1: nothing of the window is missing or tentative, and every row is there.",
    Suite.BOUNDARIES: "S1: from version to version the boundary never went back, and no final row "
    "was replaced.",
    Suite.AVAILABILITY: "S6: where some input was there, first results came within the bound.",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """An expectation of GX: the name of its class, its arguments, and its text for people."""

    kind: str
    message: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of facts and the expectations about it."""

    name: str
    rows: pd.DataFrame
    expected: tuple[Expected, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """One suite over one window: the tables to check and the figures of the certificate."""

    suite: Suite
    facts: Facts
    tables: tuple[Table, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)


def examinations(facts: Facts) -> list[Examination]:
    """The suites that apply to a window."""
    found = [_complete(facts), _boundaries(facts)]
    if facts.recomputed is not None:
        found.insert(0, _converged(facts))
    arrivals = arrivals_frame(facts)
    if len(arrivals) or facts.subject.status.stream.kind != "source":
        found.append(_availability(facts, arrivals))
    return found


def _all(column: str, values: Sequence[object], text: str) -> Expected:
    arguments = {"column": column, "value_set": list(values)}
    return Expected("ExpectColumnValuesToBeInSet", text, arguments)


def _converged(facts: Facts) -> Examination:
    assert facts.recomputed is not None
    width_us = facts.subject.status.stream.width_us
    found = differences(facts.stable, facts.recomputed, facts.columns, width_us, facts.derived)
    buckets = found.buckets
    columns = differing_columns(facts.columns, facts.derived, facts.stored_types)
    tables = [
        Table(
            name="buckets",
            rows=buckets,
            expected=(
                _all("only_in_stream", [0], "no row is in the stream alone"),
                _all("only_recomputed", [0], "no row is missing from the stream"),
                Expected(
                    "ExpectColumnPairValuesToBeEqual",
                    "each bucket has as many rows as were recomputed",
                    {"column_A": "rows", "column_B": "recomputed"},
                ),
            ),
        ),
    ]
    if len(columns):
        shown = "; ".join(
            f"{row.column} is {row.declared}, and {row.derived} by the rules, in files "
            f"{row.in_files}"
            for row in columns.itertuples()
        )
        text = f"each column has the type that Spark's rules give it ({shown})"
        nothing = Expected("ExpectColumnValuesToBeNull", text, {"column": "column"})
        tables.append(Table(name="columns", rows=columns, expected=(nothing,)))
    if len(found.shown):
        nothing = Expected("ExpectColumnValuesToBeNull", "no row differs", {"column": "row"})
        tables.append(Table(name="differing_rows", rows=found.shown, expected=(nothing,)))
    tentative, gaps = facts.ranges(Stability.TENTATIVE), facts.ranges(Stability.GAP)
    return Examination(
        suite=Suite.CONVERGED,
        facts=facts,
        tables=tuple(tables),
        figures={
            "final_rows": facts.stable.num_rows,
            "recomputed_rows": facts.recomputed.num_rows,
            "only_in_stream": int(buckets["only_in_stream"].sum()),
            "only_recomputed": int(buckets["only_recomputed"].sum()),
            "buckets_with_rows": len(buckets),
            "columns_of_another_type": len(columns),
            "computed_from": LANDED,
            "failed_in_box": {box: sum(counts.values()) for box, counts in facts.failed.items()},
            "failed_because": {box: dict(counts) for box, counts in facts.failed.items()},
            "tentative_us_not_compared": sum(p.to_us - p.from_us for p in tentative),
            "gap_us_not_compared": sum(p.to_us - p.from_us for p in gaps),
            "dropped_us_not_compared": facts.dropped_us,
        },
        engines=facts.engines,
    )


def _complete(facts: Facts) -> Examination:
    pieces = pieces_frame(facts)
    final = [s.value for s in Stability if s.is_final]
    tentative = pieces[pieces["label"] == Stability.TENTATIVE.value]
    return Examination(
        suite=Suite.COMPLETE,
        facts=facts,
        tables=(
            Table(
                name="pieces",
                rows=pieces,
                expected=(
                    _all("label", final, "every piece of the window is stable or a declared gap"),
                    _all("missing_inputs", [""], "no piece was computed without an input"),
                    Expected(
                        "ExpectColumnPairValuesToBeEqual",
                        "the files hold as many rows as the catalog counts",
                        {"column_A": "rows_in_catalog", "column_B": "rows_in_files"},
                    ),
                ),
            ),
        ),
        figures={
            "final_rows": int(facts.stable.num_rows),
            "tentative_rows": int(tentative["rows_in_catalog"].sum()),
            **{f"{label}_us": int(pieces[pieces["label"] == label]["length_us"].sum())
               for label in (*(s.value for s in Stability), HOLE)},
            "in_quarantine": dict(facts.quarantine),
        },
    )  # fmt: skip


def _boundaries(facts: Facts) -> Examination:
    versions = versions_frame(facts)
    reached = versions["boundary_us"]
    furthest = reached.groupby(versions["generation"]).cummax()
    # A step back is a row below the greatest so far: GX's own test of an increase names no row.
    versions["went_back_us"] = (furthest - reached).astype("int64")
    return Examination(
        suite=Suite.BOUNDARIES,
        facts=facts,
        tables=(
            Table(
                name="versions",
                rows=versions,
                expected=(
                    _all("went_back_us", [0], "the boundary never goes back"),
                    _all("final_rows_replaced", [0], "no final row is replaced"),
                ),
            ),
        ),
        figures={
            "versions": len(versions),
            "went_back_us": int(versions["went_back_us"].max()) if len(versions) else 0,
            "final_rows_replaced": int(versions["final_rows_replaced"].sum()),
        },
    )


def _availability(facts: Facts, arrivals: pd.DataFrame) -> Examination:
    bound_ms = facts.bound_ms
    expected = []
    if bound_ms is not None:
        most = {"column": "delay_ms", "max_value": bound_ms}
        text = f"first results come within {bound_ms} ms of their inputs"
        expected.append(Expected("ExpectColumnValuesToBeBetween", text, most))
    figures: dict[str, Any] = {"bound_ms": bound_ms}
    for name, labels in (("tentative", ["tentative"]), ("final", ["stable"])):
        delays = arrivals[arrivals["label"].isin(labels)]["delay_ms"]
        figures[f"first_arrivals_{name}"] = len(delays)
        figures[f"delay_ms_max_{name}"] = int(delays.max()) if len(delays) else None
    beyond = 0 if bound_ms is None else int((arrivals["delay_ms"] > bound_ms).sum())
    return Examination(
        suite=Suite.AVAILABILITY,
        facts=facts,
        tables=(Table(name="first_arrivals", rows=arrivals, expected=tuple(expected)),),
        figures={**figures, "beyond_bound": beyond},
    )
