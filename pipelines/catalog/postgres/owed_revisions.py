"""Which final segments are owed again because an input was revised, found in Postgres.

The database finds those that read a range which differs now; the fragment decides which of them
need it. What is left of a segment beside the buckets that were computed again read it, too, and
needs nothing of it: the more is revised, the more of these there are, and they must take no place
in a list that is cut. A line that was found to owe nothing never owes anything for the same
revisions, as no later commit may read what they replaced; so it is not looked at for them again. A
commit that was under way when a revision was made may: a line counts once all of these are over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from medusa_core.fragments import Fragment
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.knowledge import Limits, RevisedKnowledge
from medusa_core.names import PlanId, StreamName
from medusa_core.revisions import is_touched
from pipelines.catalog.knowledge_rows import RevisedInput
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.rows import Row


@dataclass(frozen=True, slots=True)
class _Found:
    """A segment that read what was revised since: what of it is kept, and which ranges it read."""

    segment_id: int
    line_id: int
    plan: PlanId
    part: Range
    changed: Mapping[StreamName, tuple[Range, ...]]


class OwedRevisions:
    """What is owed again in one home, and through which revisions nothing is."""

    def __init__(self) -> None:
        self._settled: dict[tuple[int, int], tuple[Fragment, int]] = {}
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}

    def read(
        self, connection: Connection, inputs: Sequence[RevisedInput], limits: Limits
    ) -> list[RevisedKnowledge]:
        """The oldest segments of each plan that are owed, as many as a step has buckets.

        Of plans before the newest one also segments that the fragment needs nothing for: another
        plan's may.
        """
        unsettled = [one for one in inputs if self._settled_through(one) < one.source.revised]
        if not unsettled:
            return []
        by_line = {one.output.line_id: one for one in unsettled}
        room: Counter[tuple[PlanId, bool]] = Counter()
        chosen: list[_Found] = []
        for row in connection.execute(
            query("knowledge_revised"), self._values(unsettled)
        ).mappings():
            found, of = _found(row), by_line[row["line_id"]]
            is_owed = is_touched(
                of.fragment, of.output.stream, of.output.width_us, found.part, found.changed
            )
            if not is_owed and found.plan == of.plan:
                continue
            room[found.plan, is_owed] += 1
            if room[found.plan, is_owed] <= limits.buckets_per_step_max:
                chosen.append(found)
        self._note(connection, unsettled, {found.line_id for found in chosen})
        return _knowledge(connection, chosen, by_line)

    def _settled_through(self, one: RevisedInput) -> int:
        fragment, generation = self._settled.get(_key(one), (None, 0))
        return generation if fragment == one.fragment else 0

    def _values(self, unsettled: Sequence[RevisedInput]) -> Mapping[str, str]:
        pairs = [
            {
                "output": one.output.line_id,
                "input": one.source.line_id,
                "back_us": one.back_us,
                "delay_us": one.delay_us,
                "settled": self._settled_through(one),
            }
            for one in unsettled
        ]
        return {"pairs": json.dumps(pairs)}

    def _note(
        self, connection: Connection, unsettled: Sequence[RevisedInput], owed: set[int]
    ) -> None:
        clear = [one for one in unsettled if one.output.line_id not in owed]
        if not clear:
            return
        running = connection.execute(query("transactions_running")).mappings().one()
        for one in clear:
            generation, before = self._seen.setdefault(
                _key(one), (one.source.revised, running["next_xid"])
            )
            if generation != one.source.revised:
                self._seen[_key(one)] = (one.source.revised, running["next_xid"])
            elif before <= running["oldest_xid"]:
                self._settled[_key(one)] = (one.fragment, one.source.revised)


def _key(one: RevisedInput) -> tuple[int, int]:
    return one.output.line_id, one.source.line_id


def _found(row: Row) -> _Found:
    changed: dict[StreamName, list[Range]] = {}
    for name, from_us, to_us in sorted(row["changed"]):
        changed.setdefault(StreamName(name), []).append(Range(from_us, to_us))
    kept_us = BEGINNING_US if row["trimmed_us"] is None else row["trimmed_us"]
    return _Found(
        segment_id=row["segment_id"],
        line_id=row["line_id"],
        plan=PlanId(row["plan"]),
        part=Range(max(row["from_us"], kept_us), row["to_us"]),
        changed={name: tuple(parts) for name, parts in changed.items()},
    )


def _knowledge(
    connection: Connection, chosen: Sequence[_Found], by_line: Mapping[int, RevisedInput]
) -> list[RevisedKnowledge]:
    if not chosen:
        return []
    values = {"segment_ids": [found.segment_id for found in chosen]}
    answer = connection.execute(query("knowledge_revised_segments"), values).mappings()
    whole = {row["segment_id"]: row for row in answer}
    known: list[RevisedKnowledge] = []
    for found in chosen:
        line = by_line[found.line_id].output
        segment = rows.segment_of(whole[found.segment_id], line.stream, line.producer)
        known.append(RevisedKnowledge(segment=segment, part=found.part, changed=found.changed))
    return known
