"""The offset of a streaming query: an event time in the stable prefix of one home.

Stable buckets keep their rows, so an event time says exactly which rows were read, however often
a batch is tried. The offset also records where the query began, because Spark keeps no beginning
of its first batch; and its home and incarnation, so that a checkpoint that is used with another
home, another stream or a restored backup is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Expired, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from pipelines.base.time_text import iso
from pipelines.datasource.stream_snapshot import StreamSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """All rows from `from_us` to before `through_us` are read, as that generation of the line has
    them; the order of fields is Spark's."""

    home: str
    incarnation: str
    stream: str
    from_us: int
    through_us: int
    generation: int = 1

    def document(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {name: getattr(self, name) for name in Offset.__slots__}


def offset_of(document: Mapping[str, Any]) -> Offset:
    """An offset from a checkpoint; Refused if it is none of ours."""
    names, numbers = set(Offset.__slots__), {"from_us", "through_us", "generation"}
    document = {"generation": 1, **document}  # those of before recalls have none
    is_ours = set(document) == names and all(
        type(document[name]) is (int if name in numbers else str) for name in names
    )
    if not is_ours or not (
        BEGINNING_US <= document["from_us"] <= document["through_us"] <= FOREVER_US
    ):
        raise Refused(
            "the checkpoint has no offset of format medusa: give the query a checkpoint of its own"
        )
    return Offset(**document)


def beginning(line: StreamSnapshot, from_us: int | None) -> Offset:
    """Where a new query begins: at `from_us`, else with all that is kept.

    Raises Expired if `from_us` lies before what is kept.
    """
    kept_us = BEGINNING_US if line.kept_from_us is None else line.kept_from_us
    at_us = kept_us if from_us is None else from_us
    offset = Offset(
        home=line.home,
        incarnation=line.incarnation,
        stream=line.stream,
        from_us=at_us,
        through_us=at_us,
        generation=line.generation,
    )
    check_offset(line, offset, at_us)
    return offset


def check_offset(line: StreamSnapshot, offset: Offset, next_us: int) -> None:
    """Refuse an offset of something else; Expired if what comes next, from `next_us`, is gone.

    Expired too if the home no longer has what was read.
    """
    if (offset.home, offset.stream) != (line.home, line.stream):
        raise Refused(
            f"the checkpoint is of stream {offset.stream} in the home of {offset.home}, not of "
            f"{line.stream} in that of {line.home}: give the query a checkpoint of its own"
        )
    if offset.incarnation != line.incarnation:
        raise Expired(
            f"the catalog of {line.home} was restored from a backup after this checkpoint was "
            f"written, so it may say less than was read of {line.stream}: start again, with a new "
            "checkpoint and an empty sink"
        )
    again = [at_us for number, at_us in line.recalls if number > offset.generation]
    if again and max(min(again), offset.from_us) < offset.through_us:
        raise Expired(
            f"{line.stream} was read up to {iso(offset.through_us)} and recalled from "
            f"{iso(min(again))} on since (generation {line.generation}): start again, with a new "
            "checkpoint and an empty sink"
        )
    final_us = BEGINNING_US if line.final_through_us is None else line.final_through_us
    if offset.through_us > max(final_us, offset.from_us):
        # What is stable stays so: the catalog has forgotten, and nobody gave it an incarnation.
        raise Expired(
            f"{line.stream} was read up to {iso(offset.through_us)}, and the home of {line.home} "
            f"has final rows up to {iso(final_us)} only, so it was set back to an older state: "
            "start again, with a new checkpoint and an empty sink"
        )
    lost_us = line.lost_before_us
    if lost_us is not None and next_us < lost_us:
        raise Expired(
            f"{line.stream} is trimmed before {iso(lost_us)}, but comes next at {iso(next_us)}: "
            "start again with a new checkpoint, and from there"
        )
