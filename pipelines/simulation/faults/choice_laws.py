"""The laws of the choice among several producers, over a home's reads of a stream.

`CHOICE`: a final row equals the final rows of at least as many producers as are to verify it; a
tentative one is chosen only where there are fewer; after a divergence nothing becomes final, and
only true divergences are recorded. S11: a choice is no younger than the chosen row. S6: a row
that is final in this home is chosen soon, and no tentative one is, where another producer that
nothing kept from reporting has had the rows as final for longer than X.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from medusa_core.commits import OutputSegment
from medusa_core.digest import Digest
from medusa_core.divergence import Divergence
from medusa_core.grid import FOREVER_US, Range
from medusa_core.imports import ChosenRows
from medusa_core.names import Participant, PlanId, StreamName
from medusa_core.segments import Producer, Segment, Stability
from pipelines.catalog.memory.choices import DIVERGENCES
from pipelines.catalog.memory.tables import CommitRow, LineRow
from pipelines.simulation.faults.bound_laws import GRACE_MS, STEP_MS, made_since, segment_of
from pipelines.simulation.faults.events import Violation

if TYPE_CHECKING:
    from pipelines.simulation.faults.scenario import Scenario
    from pipelines.simulation.faults.simulated_homes import LineKey, SimulatedHome

Lines = Mapping["LineKey", LineRow]
JUMP_MS = 1_000
"""By how much a home's clock may have jumped meanwhile."""

Had = list[tuple[Producer, Segment | None]]
"""Who has a bucket as final, and as what row; None where it is outside its line's life."""


class ChoiceLaws:
    """The laws over the choices of one schedule; every check raises Violation.

    `spoilt_us` is what a wrong row may have reached, and from when on; `calm_ms` tells for how long
    nothing has been wrong between two participants.
    """

    def __init__(
        self,
        scenario: Scenario,
        homes: Mapping[Participant, SimulatedHome],
        spoilt_us: Mapping[StreamName, int],
        is_disturbed: Callable[[Participant], bool],
        calm_ms: Callable[[Participant, Participant], int],
    ) -> None:
        self._scenario = scenario
        self._homes = homes
        self._is_disturbed = is_disturbed
        self._calm_ms = calm_ms
        self.spoilt_us = spoilt_us
        self.lapsed: set[tuple[Participant, StreamName, Participant]] = set()
        self._begun_ms: dict[tuple[Participant, LineKey], int] = {}
        self._ended_ms: dict[tuple[Participant, LineKey], int] = {}

    def may_be_lost(self, home: SimulatedHome, segment: Segment) -> bool:
        """Whether a gap in a copy is that of a hold that ran out."""
        copied = (home.participant, segment.stream, segment.producer.participant)
        return not segment.producer.is_import and copied in self.lapsed

    def note_line(self, home: SimulatedHome, key: LineKey, old: LineRow, new: LineRow) -> None:
        """Note when a home learned where a line begins, and that it has ended: no row says it."""
        if new.origin_us != old.origin_us:
            self._begun_ms[home.participant, key] = home.clock.now_ms
        if _has_ended(new) and not _has_ended(old):
            self._ended_ms[home.participant, key] = home.clock.now_ms

    # before a choice is committed

    def check_seen(self, home: SimulatedHome, chosen: ChosenRows, seen: Lines) -> None:
        """CHOICE: what is chosen as tentative was not final by what was known; no divergence is
        noted that is none."""
        for divergence in chosen.divergences:
            if divergence.bucket_us < self.spoilt_us.get(chosen.stream, FOREVER_US):
                raise Violation(
                    "CHOICE", f"{home.participant} takes producers of {chosen.stream} for diverged "
                    f"in the bucket at {divergence.bucket_us}, which they are not",
                )  # fmt: skip
        disputed_us = min(
            (d.bucket_us for d in (*_noted(home, chosen.stream), *chosen.divergences)),
            default=FOREVER_US,
        )
        for row in chosen.rows:
            if row.stability.is_final:
                continue
            for at_us in self._buckets(row.range, row.stream):
                had = final_at(seen, row.stream, at_us)
                if at_us < disputed_us and self._most(had, at_us) >= self._verify(row.stream):
                    raise Violation(
                        "CHOICE", f"{home.participant} reads the bucket of {row.stream} at {at_us} "
                        "as tentative, and knew it as final",
                    )  # fmt: skip

    # after it

    def check_choice(self, home: SimulatedHome, row: CommitRow) -> None:
        """Look at one commit of an import's line."""
        lines = home.lines()
        for given in row.commit.segments:
            where = f"{given.stream} {given.range} as chosen in the home of {home.participant}"
            self._check_age(where, row, given, lines)
            disputed_us = min((d.bucket_us for d in _noted(home, given.stream)), default=FOREVER_US)
            if given.stability is Stability.STABLE:
                if given.range.to_us > disputed_us:
                    raise Violation(
                        "CHOICE", f"{where} became final, though producers differ from "
                        f"{disputed_us} on",
                    )  # fmt: skip
                self._check_final(where, row, given, lines)
            elif given.range.from_us < disputed_us:
                self._check_not_passed_by(where, home, row, given)
            if not self._is_disturbed(home.participant):
                self._check_soon(where, home, row, given)

    def _check_age(self, where: str, row: CommitRow, given: OutputSegment, lines: Lines) -> None:
        read = [segment_of(lines, one) for one in row.commit.lineage
                if given.range.covers(one.range)]  # fmt: skip
        oldest_ms = min((s.fresh_ms for s in read if s is not None), default=None)
        fresh_ms = row.committed_at_ms if given.fresh_ms is None else given.fresh_ms
        if oldest_ms is not None and fresh_ms > oldest_ms:
            raise Violation("S11", f"{where} is fresh at {fresh_ms}, its row was at {oldest_ms}")

    def _check_final(self, where: str, row: CommitRow, given: OutputSegment, lines: Lines) -> None:
        for at_us in self._buckets(given.range, given.stream):
            same = [
                producer
                for producer, segment in final_at(lines, given.stream, at_us)
                if _content(segment, at_us) == given.buckets.get(at_us)
                and (segment is None or segment.plan == row.commit.plan)
            ]
            if len(same) < self._verify(given.stream):
                raise Violation(
                    "CHOICE", f"{where} is final, and the bucket at {at_us} is so with "
                    f"{', '.join(map(str, same)) or 'no producer'}",
                )  # fmt: skip

    def _check_not_passed_by(
        self, where: str, home: SimulatedHome, row: CommitRow, given: OutputSegment
    ) -> None:
        """S6: nothing tentative is read where a producer could publish final rows within X."""
        if self._verify(given.stream) > 1 or self._is_disturbed(home.participant):
            return
        bound_ms = self._scenario.bound.bound_ms + GRACE_MS + JUMP_MS
        for other in self._homes.values():
            calm_ms = self._calm_ms(home.participant, other.participant)
            if other is home or self._is_disturbed(other.participant):
                continue
            over = [
                found.segment
                for (stream, producer), line in other.lines().items()
                if stream == given.stream and producer.participant == other.participant
                and not producer.is_import
                for found in line.live_over(given.range)
            ]  # fmt: skip
            if not over or not all(s.stability is Stability.STABLE for s in over):
                continue
            is_whole = over[0].range.from_us <= given.range.from_us
            had_ms = other.clock.now_ms - max(s.arrived_ms for s in over)
            since_ms = home.clock.now_ms - had_ms
            waits_ms = bound_ms + STEP_MS * len(made_since(home, since_ms, row))
            if (
                is_whole
                and over[-1].range.to_us >= given.range.to_us
                and (min(had_ms, calm_ms) > waits_ms)
            ):
                raise Violation(
                    "S6", f"{where} is tentative, and {other.participant} had it as final for "
                    f"{had_ms} ms",
                )  # fmt: skip

    def _check_soon(
        self, where: str, home: SimulatedHome, row: CommitRow, given: OutputSegment
    ) -> None:
        """S6: what enough producers have as final here is read soon."""
        if not given.stability.is_final:
            return
        lines, verify = home.lines(), self._verify(given.stream)
        mine = lines[given.stream, row.commit.lease.key.producer]
        before_ms = [
            r.segment.arrived_ms for r in mine.live if r.segment.range.to_us == given.range.from_us
        ]
        for at_us in self._buckets(given.range, given.stream):
            had = final_at(lines, given.stream, at_us)
            came = sorted(
                self._outside_ms(home, (given.stream, producer), at_us) if s is None
                else s.arrived_ms
                for producer, s in had
            )  # fmt: skip
            if len(came) < verify or not before_ms:
                continue
            possible_ms = max(came[verify - 1], *before_ms)
            made = made_since(home, possible_ms, row)
            if row.committed_at_ms - possible_ms > GRACE_MS + STEP_MS * len(made):
                raise Violation(
                    "S6", f"{where} came {row.committed_at_ms - possible_ms} ms after it was final",
                )  # fmt: skip

    def _outside_ms(self, home: SimulatedHome, key: LineKey, at_us: int) -> int:
        """Since when it is known in a home that a bucket is outside a line's life."""
        known = self._begun_ms if _is_before(home.lines()[key], at_us) else self._ended_ms
        return known[home.participant, key]

    # in the end

    def check_noted(self, gone: Collection[Participant]) -> None:
        """CHOICE: where final rows of producers differ in the end, that was noted.

        A copy that has come is compared in the reader's next tick, not with its last row: so this
        is true only once every home but those that are `gone` for good has ticked since,
        for which `liveness.let_compare` gives the time.
        """
        for unnoted in self.unnoted(gone):
            raise Violation("CHOICE", f"{unnoted}, and it is not noted")

    def unnoted(self, gone: Collection[Participant]) -> list[str]:
        """Where final rows of producers differ in a home as it is now, and that is not noted."""
        found = []
        for home in self._homes.values():
            for stream in self._scenario.chosen(home.participant):
                noted_us = min((d.bucket_us for d in _noted(home, stream)), default=FOREVER_US)
                at_us = self._first_difference(home.lines(), stream)
                if at_us < noted_us and home.participant not in gone:
                    found.append(
                        f"producers of {stream} differ in the bucket at {at_us} in the home of "
                        f"{home.participant}"
                    )
        return found

    def _first_difference(self, lines: Lines, stream: StreamName) -> int:
        for at_us in self._buckets(self._scenario.whole, stream):
            # What is trimmed before another producer is final there is compared with nothing.
            found = [
                segment
                for producer, segment in final_at(lines, stream, at_us)
                if segment and not _is_trimmed(lines[stream, producer], at_us)
            ]
            if len({_content(segment, at_us) for segment in found}) > 1:
                return at_us
        return FOREVER_US

    def _most(self, had: Had, at_us: int) -> int:
        """How many have the same, under one plan."""
        found: list[tuple[PlanId | None, Digest | None]] = [
            (segment.plan, _content(segment, at_us)) for _, segment in had if segment is not None
        ]
        outside = sum(segment is None for _, segment in had)
        return max(
            (found.count(one) + (outside if one[1] is None else 0) for one in found),
            default=outside,
        )

    def _buckets(self, part: Range, stream: StreamName) -> range:
        return range(part.from_us, part.to_us, self._scenario.widths_us[stream])

    def _verify(self, stream: StreamName) -> int:
        return self._scenario.replicas.verify.get(stream, 1)


def final_at(lines: Lines, stream: StreamName, at_us: int) -> Had:
    """The producers that have a bucket as stable, by what lies in a home."""
    return list(_final_at(lines, stream, at_us))


def _final_at(
    lines: Lines, stream: StreamName, at_us: int
) -> Iterator[tuple[Producer, Segment | None]]:
    for (name, producer), line in lines.items():
        if name != stream or producer.is_import:
            continue
        over = line.live_over(Range(at_us, at_us + 1))
        if over and over[0].segment.stability is Stability.STABLE:
            yield producer, over[0].segment
        is_behind = _has_ended(line) and at_us >= (line.end_us or 0)
        if not over and (_is_before(line, at_us) or is_behind):
            yield producer, None


def _is_before(line: LineRow, at_us: int) -> bool:
    return line.origin_us is not None and at_us < line.origin_us


def _has_ended(line: LineRow) -> bool:
    return line.boundary_us == FOREVER_US and line.end_us is not None


def _is_trimmed(line: LineRow, at_us: int) -> bool:
    return line.trimmed_us is not None and at_us < line.trimmed_us


def _content(segment: Segment | None, at_us: int) -> Digest | None:
    return None if segment is None else segment.buckets.get(at_us)


def _noted(home: SimulatedHome, stream: StreamName) -> list[Divergence]:
    rows: Mapping[int, Divergence] = home.store.committed.get(DIVERGENCES.name, {})  # type: ignore[assignment]
    return [d for d in rows.values() if d.stream == stream]
