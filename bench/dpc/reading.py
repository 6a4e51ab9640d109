"""Reading a chain's catalogs from outside, without asking its participants anything."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extras

from bench.dpc.contracts import stream_of
from bench.dpc.history import History, Transition, Version
from bench.dpc.scenario import BUCKET_S, SOURCE_OF, Chain
from bench.federation import Federation
from bench.processes import ContenderFailed

_FOLDER = Path(__file__).parent
VERSIONS, STANDING, TRANSITIONS = (
    (_FOLDER / f"{name}.sql").read_text() for name in ("versions", "standing", "transitions")
)


def read_history(federation: Federation, chain: Chain) -> History:
    """All that was written since the federation began."""
    hops = list(enumerate(chain.hops, start=1))
    return History(
        width_us=int(BUCKET_S * 1_000_000),
        landed={
            source: _versions(federation, lander, source) for lander, source in SOURCE_OF.items()
        },
        hops=tuple(_versions(federation, hop, stream_of(chain, at)) for at, hop in hops),
        transitions=tuple(
            Transition(hop=hop, **row)
            for hop in chain.hops
            for row in _rows(federation, hop, TRANSITIONS, {"participant": hop})
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a chain stands: live tentative rows of all hops, how far (us) the last stream is final,
    and the fewest commits that any hop has made."""

    tentative: int
    final_us: int
    commits: int


def read_standing(federation: Federation, chain: Chain) -> Standing:
    """How it stands now; the homes are asked one after the other, the head first."""
    rows = []
    for at, hop in enumerate(chain.hops, start=1):
        wanted = {"participant": hop, "stream": stream_of(chain, at)}
        rows += _rows(federation, hop, STANDING, wanted)
    return Standing(
        tentative=sum(int(row["tentative"]) for row in rows),
        final_us=int(rows[-1]["final_us"]),
        commits=min(int(row["commits"]) for row in rows),
    )


def _versions(federation: Federation, participant: str, stream: str) -> tuple[Version, ...]:
    wanted = {"participant": participant, "stream": stream}
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
        for row in _rows(federation, participant, VERSIONS, wanted)
    )


def _rows(
    federation: Federation, participant: str, sql: str, wanted: Mapping[str, str]
) -> list[dict[str, Any]]:
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
