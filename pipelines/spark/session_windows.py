"""The records of a Session, each with the bounds of the session that holds it, in Spark SQL.

A record that comes the gap or more after the one before it begins a run. Of the runs that have
begun so far, the newest is the record's own. All window functions have the key as their partition,
so that the records are exchanged once, and the grouping behind them needs no exchange of its own
(unless a double is among the columns of the key: it is compared in another form).
"""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.sessions import Session
from pipelines.storage.arrow_schema import STIME

_RUN, _FIRST, _PIECE = "_run_us", "_first_us", "_piece_us"


def in_sessions(box: Session, keys: Sequence[str], input_: str, start: str, end: str) -> str:
    """Every record of a relation with the first time of its session, and its last time + the gap.

    `keys` are those of the box in a form that compares equal values as equal.
    """
    key = f"PARTITION BY {', '.join(keys)}" if keys else ""
    in_order = f"OVER ({key} ORDER BY {STIME})"
    # Of records at one time, the first one in whichever order begins a run, and it counts for all:
    # the frame of `max` has every record at the time of its own.
    begins = f"coalesce({STIME} - lag({STIME}) {in_order} >= {box.gap_us}L, TRUE)"
    runs = f"SELECT *, IF({begins}, {STIME}, NULL) AS {_RUN} FROM {input_}"
    firsts = f"SELECT *, max({_RUN}) {in_order} AS {_FIRST} FROM ({runs})"
    # A piece is named by the first record of its run, or by the multiple at its beginning or before
    # it, which lies behind that record and in no other run.
    cut = f"{_FIRST} + {box.length_us_max}L"
    last_multiple = f"{STIME} - pmod({STIME}, {box.length_us_max}L)"
    piece = f"IF({STIME} < {cut}, {_FIRST}, {last_multiple})"
    pieces = f"SELECT *, {piece} AS {_PIECE} FROM ({firsts})"
    of_piece = f"OVER (PARTITION BY {', '.join((*keys, _PIECE))})"
    return (
        f"SELECT *, min({STIME}) {of_piece} AS {start}, "
        f"max({STIME}) {of_piece} + {box.gap_us}L AS {end} FROM ({pieces})"
    )
