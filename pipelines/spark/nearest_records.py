"""Lookup and Resample in Spark SQL: beside each record, the nearest one of its key.

Both sort the records of a key once and pass each of them once.
"""

from __future__ import annotations

from medusa_core.resamples import Resample
from pipelines.language.aggregates import canonical_order
from pipelines.language.check import CheckedLookup, CheckedResample
from pipelines.language.resampled_columns import SAMPLE_TIME, is_interpolated
from pipelines.storage.arrow_schema import STIME


def looked_up(checked: CheckedLookup, input_: str, table: str) -> str:
    """Records of both inputs in order of time, and beside each the newest table record so far.

    At equal times the table's records are first. Every row is passed once: cost does not grow
    with the records that each record of the input could meet.
    """
    box = checked.box
    at = {column.name: f"met.c{number}" for number, column in enumerate(checked.table)}
    is_met = f"met.t >= {STIME} - {box.max_age_us}L"
    given, columns = [], []
    for number, (name, side, column) in enumerate(checked.columns):
        if side == "input":
            given.append((f"i{number}", f"`{column}`"))
        value = f"i{number}" if side == "input" else f"IF({is_met}, {at[column]}, NULL)"
        columns.append(f"{value} AS `{name}`")
    keys = [f"k{number}" for number in range(len(box.keys))]
    of_input, of_table = (
        ", ".join(f"`{pair[side]}` AS {key}" for key, pair in zip(keys, box.keys, strict=True))
        for side in (0, 1)
    )
    record = f"named_struct({', '.join(canonical_order(checked.table))})"
    has_keys = " AND ".join(f"`{key}` IS NOT NULL" for _, key in box.keys)
    both = (
        f"SELECT {of_table}, {STIME}, 0 AS side, {record} AS record"
        f"{''.join(f', NULL AS {name}' for name, _ in given)} FROM {table} AS {table} "
        f"WHERE {has_keys} UNION ALL SELECT {of_input}, {STIME}, 1, NULL"
        f"{''.join(f', {column} AS {name}' for name, column in given)} FROM {input_}"
    )
    window = (
        f"PARTITION BY {', '.join(keys)} ORDER BY {STIME}, side "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )
    met = f"SELECT *, max(record) OVER ({window}) AS met FROM ({both})"
    only = f" AND {is_met}" if box.how == "inner" else ""
    return f"SELECT {', '.join(columns)}, {STIME} FROM ({met}) WHERE side = 1{only}"


def resampled(checked: CheckedResample, input_: str) -> str:
    """Each record with the next one of its key, at the times for which it is the newest one."""
    box = checked.box
    keys = {f"k{number}": name for number, name in enumerate(box.by)}
    own = [f"`{name}` AS {key}" for key, name in keys.items()]
    own.append(f"named_struct({', '.join(canonical_order(checked.given))}) AS record")
    window = f"PARTITION BY {', '.join(keys) or '1'} ORDER BY record"
    followed = (
        f"SELECT *, lead(record) OVER ({window}) AS next "
        f"FROM (SELECT {', '.join(own)} FROM {input_})"
    )
    times = f"SELECT *, explode({_sample_times(box)}) AS sample FROM ({followed})"
    columns = [f"timestamp_micros(sample) AS `{SAMPLE_TIME}`"]
    columns += [f"{key} AS `{name}`" for key, name in keys.items()]
    at = {column.name: f"c{number}" for number, column in enumerate(checked.given)}
    share = "(CAST(sample - record.t AS DOUBLE) / CAST(next.t - record.t AS DOUBLE))"
    for column in checked.columns:
        value = f"record.{at[column.name]}"
        if is_interpolated(box, column):
            first, last = (
                f"CAST({side}.{at[column.name]} AS DOUBLE)" for side in ("record", "next")
            )
            between = f"({first} + ({last} - {first}) * {share})"
            value = f"IF(sample = record.t, {first}, {between}) + 0.0D"
        columns.append(f"{value} AS `{column.name}`")
    return f"SELECT {', '.join(columns)}, sample + {box.delay_us}L AS {STIME} FROM ({times})"


def _sample_times(box: Resample) -> str:
    """The multiples of the step at which a record, followed by `next`, is the newest one.

    A record before another one of the same time is the newest nowhere.
    """
    step_us, age_us = box.step_us, box.max_age_us

    def multiples(first: str, last: str) -> str:
        first, last = (
            f"({first} + pmod(-({first}), {step_us}L))",
            f"({last} - pmod({last}, {step_us}L))",
        )
        return f"IF({first} <= {last}, sequence({first}, {last}, {step_us}L), {none})"

    none = "CAST(array() AS ARRAY<BIGINT>)"
    if box.method == "previous":
        return multiples("record.t", f"least(record.t + {age_us}L, next.t - 1)")
    at_it = f"IF(pmod(record.t, {step_us}L) = 0, array(record.t), {none})"
    between = multiples(
        f"greatest(record.t + 1, next.t - {age_us}L)", f"least(record.t + {age_us}L, next.t - 1)"
    )
    return (
        f"CASE WHEN next IS NULL THEN {at_it} WHEN next.t > record.t "
        f"THEN concat({at_it}, {between}) ELSE {none} END"
    )
