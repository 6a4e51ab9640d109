"""Reading a chain's catalogs from outside, without asking its participants anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extras

from bench.dpc.contracts import lines_of
from bench.dpc.history import History, Transition, Version
from bench.dpc.replica_figures import Choice
from bench.dpc.scenario import BUCKET_S, SOURCE_OF, Chain
from bench.federation import Federation
from bench.processes import ContenderFailed

_FOLDER = Path(__file__).parent
VERSIONS, STATUS, TRANSITIONS, CHOICES, DIVERGENCES = (
    (_FOLDER / f"{name}.sql").read_text()
    for name in ("versions", "standing", "transitions", "choices", "divergences")
)

Line = tuple[str, str]
"""Who writes it, in a home of its own, and the stream."""


def read_history(federation: Federation, chain: Chain) -> History:
    """All that was written since the federation began."""
    return read_lines(federation, lines_of(chain))


def read_lines(federation: Federation, lines: Sequence[Line]) -> History:
    """The like for these, where all of them read the sources or each other."""
    return History(
        width_us=int(BUCKET_S * 1_000_000),
        landed={
            source: _versions(federation, lander, source) for lander, source in SOURCE_OF.items()
        },
        hops=tuple(_versions(federation, writer, stream) for writer, stream in lines),
        transitions=tuple(
            Transition(hop=writer, **row)
            for writer, _ in lines
            for row in read_rows(federation, writer, TRANSITIONS, {"participant": writer})
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStatuses:
    """How lines stand: live tentative rows of all, how far (us) each of them is final at least, and
    the fewest commits that made what is live of any."""

    tentative: int
    final_us: int
    commits: int


def read_status(
    federation: Federation, lines: Sequence[Line], home: str | None = None
) -> LineStatuses:
    """How they stand now, each where it is written or all as the copies of one home; the homes are
    asked one after the other, as the lines are named."""
    rows = []
    for writer, stream in lines:
        expected = {"participant": writer, "stream": stream}
        rows += read_rows(federation, home or writer, STATUS, expected)
    return LineStatuses(
        tentative=sum(int(row["tentative"]) for row in rows),
        final_us=min(int(row["final_us"]) for row in rows),
        commits=min(int(row["commits"]) for row in rows),
    )


def read_choices(federation: Federation, reader: str, stream: str) -> tuple[Choice, ...]:
    """All that a home ever chose to read of a stream that several compute."""
    rows = read_rows(federation, reader, CHOICES, {"participant": reader, "stream": stream})
    return tuple(Choice(**{**row, "producers": tuple(row["producers"])}) for row in rows)


def read_divergences(federation: Federation, reader: str, stream: str) -> int:
    """How many buckets of a stream a home has found over which its producers disagree."""
    (row,) = read_rows(federation, reader, DIVERGENCES, {"stream": stream})
    return int(row["divergences"])


def _versions(federation: Federation, participant: str, stream: str) -> tuple[Version, ...]:
    expected = {"participant": participant, "stream": stream}
    return tuple(
        Version(
            commit=row["commit_id"],
            committed_ms=row["committed_ms"],
            cause=row["cause"],
            stability=row["stability"],
            from_us=row["from_us"],
            to_us=row["to_us"],
            missing=tuple(row["missing"]),
            rows=dict(zip(row["bucket_us"], row["bucket_rows"], strict=True)),
            step_ms=row["step_ms"] or 0.0,
        )
        for row in read_rows(federation, participant, VERSIONS, expected)
    )


def read_rows(
    federation: Federation, participant: str, sql: str, wanted: Mapping[str, str]
) -> list[dict[str, Any]]:
    """What a participant's catalog answers; raises ContenderFailed if it does not."""
    url = federation.server.superuser_url(federation.databases[participant])
    try:
        with (
            closing(psycopg2.connect(url.replace("+psycopg2", ""))) as connection,
            connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor,
        ):
            cursor.execute(sql, wanted)
            return [dict(row) for row in cursor.fetchall()]
    except psycopg2.Error as error:
        raise ContenderFailed(f"the catalog of {participant} does not answer: {error}") from error
