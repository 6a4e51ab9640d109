"""The records of a Session, each with the bounds of the session that holds it, in Spark SQL.

A record that comes the gap or more after the one before it begins a run. Of the runs that have
begun so far, the newest is the record's own. All window functions have the key as their partition,
so that the records are exchanged once, and the grouping behind them needs no exchange of its own
(unless a double is among the columns of the key: it is compared in another form).
"""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.columns import Column
from medusa_core.sessions import Session
from pipelines.storage.arrow_schema import STIME

FIRST, PIECE = "_first_us", "_piece_us"
"""The first record of the run that holds a record, and the name of its session in the run."""
RUN_BEGAN, SESSION_BEGAN, OPEN_PIECE = "_run_began_us", "_session_began_us", "_open_piece_us"
"""Columns of a carried row: when its run and its session began, and the name of the session."""
OPEN_COLUMNS = tuple(
    Column(name, "bigint") for name in (RUN_BEGAN, SESSION_BEGAN, OPEN_PIECE)
)  # fmt: skip
_RUN = "_run_us"


def in_sessions(
    box: Session, keys: Sequence[str], input_: str, start: str, end: str, *,
    is_carried: str | None = None,
) -> str:  # fmt: skip
    """Every record of a relation with the first time of its session, and its last time + the gap.

    `keys` are those of the box in a form that compares equal values as equal. `is_carried` names
    the column that is true for carried rows: each stands for a session that is open, at the time of
    its last record, and begins no run of its own.
    """
    key = f"PARTITION BY {', '.join(keys)}" if keys else ""
    in_order = f"OVER ({key} ORDER BY {STIME})"
    # Of records at one time, the first one in whichever order begins a run, and it counts for all:
    # the frame of `max` has every record at the time of its own.
    begins = f"coalesce({STIME} - lag({STIME}) {in_order} >= {box.gap_us}L, TRUE)"
    run, began = f"IF({begins}, {STIME}, NULL)", STIME
    if is_carried is not None:
        run, began = f"IF({is_carried}, {RUN_BEGAN}, {run})", SESSION_BEGAN
    runs = f"SELECT *, {run} AS {_RUN} FROM {input_}"
    firsts = f"SELECT *, max({_RUN}) {in_order} AS {FIRST} FROM ({runs})"
    # A piece is named by the first record of its run, or by the multiple at its beginning or before
    # it, which lies behind that record and in no other run.
    cut = f"{FIRST} + {box.length_us_max}L"
    last_multiple = f"{STIME} - pmod({STIME}, {box.length_us_max}L)"
    piece = f"IF({STIME} < {cut}, {FIRST}, {last_multiple})"
    pieces = f"SELECT *, {piece} AS {PIECE} FROM ({firsts})"
    of_piece = f"OVER (PARTITION BY {', '.join((*keys, PIECE))})"
    return (
        f"SELECT *, min({began}) {of_piece} AS {start}, "
        f"max({STIME}) {of_piece} + {box.gap_us}L AS {end} FROM ({pieces})"
    )
