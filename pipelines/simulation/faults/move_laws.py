"""The laws of moves: S15, and what is left of moves in the end.

S15: each bucket of a fragment has one owner by the log of the payer's home, which is never changed
backwards: a line is for buckets that are not computed yet. Load counts as moved while a move is
released: then the provider is the owner by the log, has caught up with the same rows, and its rows
are adopted; a bucket is adopted of its owner and of nobody else, and not computed here where its
owner's rows are. A move has its states in order, and a payer's number means one move in each home.
`LOST`: what a move reads is held for its provider. In the end every move has ended in both homes,
and leaves no fragment and no owner behind (L1).

The checks see the tables of every home, and share no code with the decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medusa_core.commits import Cause, Commit
from medusa_core.digest import Digest
from medusa_core.fragments import MOVED_PREFIX
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.market.moves import OTHER_ROWS, MoveState
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, Segment, Stability
from pipelines.base.foreign_documents import parse_json
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.moves import MOVES, TERMS, Force, MoveRow
from pipelines.catalog.memory.tables import FragmentRow, LineRow
from pipelines.catalog.records import OwnerLine
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.wrong_provider import WrongProvider

if TYPE_CHECKING:
    from pipelines.simulation.faults.scenario import Scenario
    from pipelines.simulation.faults.simulated_homes import LineKey, SimulatedHome

OwnerLog = Mapping[tuple[str, int, int], OwnerLine]
Rows = Mapping[int, MoveRow]
Lines = Mapping["LineKey", LineRow]

IN_ORDER = ("accepted", "started", "released", "returning", "ended")
"""A move skips states, and never goes back."""

ALLOWED_BUCKETS = 2
"""How many buckets, beside one step, may come between the look at the lines and the new owner."""

LOOK_MS = 1_000
"""How long that may take."""

COMPARED_BUCKETS = 60
"""The number of last buckets that are certainly compared before a provider becomes the owner."""

_NO_LINE = LineRow()


class MoveLaws:
    """The laws over the moves of one schedule; every check raises Violation."""

    def __init__(
        self, scenario: Scenario, homes: Mapping[Participant, SimulatedHome], wrong: WrongProvider
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._wrong = wrong
        self._scenario = scenario
        self._homes = homes
        self._logs: dict[Participant, OwnerLog] = {}
        self._rows: dict[Participant, Rows] = {}

    # after every event

    def note(self, home: SimulatedHome) -> None:
        """Look at the moves and owners that the last event changed in a home."""
        rows, log = _moves(home), owners_in(home)
        known_rows, known_log = (
            self._rows.get(home.participant, {}),
            self._logs.get(home.participant, {}),
        )
        self._rows[home.participant], self._logs[home.participant] = rows, log
        if log is not known_log:
            self._check_log(home, known_log, log)
        if rows is not known_rows:
            self._check_states(home, known_rows, rows)

    def _check_log(self, home: SimulatedHome, known: OwnerLog, log: OwnerLog) -> None:
        if any(log.get(key) != line for key, line in known.items()):
            raise Violation("S15", f"a line of the owners in {home.participant} has changed")
        for key in sorted(log.keys() - known.keys()):
            self._check_owner(home, log[key], lines_of_fragment(log, key[0]))

    def _check_owner(
        self, home: SimulatedHome, line: OwnerLine, log: tuple[OwnerLine, ...]
    ) -> None:
        where = f"the owner of {line.fragment} in the home of {home.participant}"
        payer = self._scenario.owners[line.fragment]
        own = Producer(payer)
        if home.participant != payer or [one.epoch for one in log] != list(range(1, len(log) + 1)):
            raise Violation("S15", f"{where} is noted where it is not computed, or out of order")
        for output in self._scenario.fragments[line.fragment].outputs:
            boundary_us = home.lines()[output, own].boundary_us
            if line.from_us % self._scenario.widths_us[output] or (
                boundary_us is not None and line.from_us < boundary_us
            ):
                raise Violation(
                    "S15", f"{where} changes at {line.from_us}, and {output} is computed up to "
                    f"{boundary_us}",
                )  # fmt: skip
        self.counts["owners"] += 1
        if line.owner != own:
            self._check_caught_up(home, where, line)

    def _check_caught_up(self, home: SimulatedHome, where: str, line: OwnerLine) -> None:
        """S15: who becomes the owner has a move that has started, and is nearly as far."""
        states = [
            row.state
            for row in _moves(home).values()
            if row.is_given and (row.partner, row.number) == line.owner
            and row.fragment == line.fragment
        ]  # fmt: skip
        if states != [MoveState.STARTED]:
            raise Violation("S15", f"{where} becomes {line.owner}, whose move is {states}")
        steps = self._scenario.limits.buckets_per_step_max + ALLOWED_BUCKETS
        for output in self._scenario.fragments[line.fragment].outputs:
            width_us = self._scenario.widths_us[output]
            # Corrections may have come between the look at the lines and the new owner.
            seen_ms = home.clock.now_ms - LOOK_MS
            mine = final_us(home.lines()[output, Producer(home.participant)], seen_ms)
            its = final_us(home.lines().get((output, line.owner), _NO_LINE))
            if its < mine - steps * width_us:
                raise Violation(
                    "S15", f"{where} becomes {line.owner}, which has {output} up to {its} and this "
                    f"home up to {mine}",
                )  # fmt: skip

    def _check_states(self, home: SimulatedHome, known: Rows, rows: Rows) -> None:
        numbers = Counter((r.is_given, r.partner, r.number) for r in rows.values())
        if numbers and max(numbers.values()) > 1:
            raise Violation("S15", f"{home.participant} knows two moves of one number")
        moving = Counter(
            r.fragment for r in rows.values() if r.is_given and r.state is not MoveState.ENDED
        )
        if moving and max(moving.values()) > 1:
            raise Violation("S15", f"a fragment of {home.participant} moves twice at a time")
        for key, row in rows.items():
            old = known.get(key)
            if old is row:
                continue
            where = f"move {row.number} of {row.fragment} in the home of {home.participant}"
            before = -1 if old is None else IN_ORDER.index(old.state.value)
            if IN_ORDER.index(row.state.value) <= before:
                raise Violation("S15", f"{where} became {row.state.value} again")
            self.counts[("given " if row.is_given else "taken ") + row.state.value] += 1
            if row.is_given and row.reason == OTHER_ROWS:
                self._check_others(where, row)
            log = lines_of_fragment(owners_in(home), row.fragment)
            owner = log[-1].owner if log else None
            if row.state is MoveState.RELEASED and owner != (row.partner, row.number):
                raise Violation("S15", f"{where} is released, and the owner is {owner}")
            is_back = row.is_given and row.state is MoveState.ENDED and old is not None
            if is_back and old is not None and old.state is MoveState.RETURNING:
                self._check_is_back(home, where, row, owner)

    def _check_others(self, where: str, row: MoveRow) -> None:
        """S15: a move ends for other rows only if there are some."""
        self.counts["other rows"] += 1
        if not self._wrong.has_made_one(row.fragment):
            raise Violation("S15", f"{where} ends for other rows, which nobody has made")

    def _check_is_back(
        self, home: SimulatedHome, where: str, row: MoveRow, owner: Producer | None
    ) -> None:
        if owner == (row.partner, row.number) and not self._has_ended(home, row.fragment):
            raise Violation("S15", f"{where} has ended, and its provider owns the next bucket")

    def _has_ended(self, home: SimulatedHome, fragment: str) -> bool:
        outputs = self._scenario.fragments[fragment].outputs
        lines = [home.lines()[output, Producer(home.participant)] for output in outputs]
        return all(line.boundary_us == FOREVER_US for line in lines)

    # around a new owner and a commit

    def check_agrees(self, home: SimulatedHome, line: OwnerLine, seen: Lines) -> None:
        """S15: who becomes the owner has the same rows, as far as its process had seen both."""
        if line.owner.participant == home.participant:
            return
        for output in self._scenario.fragments[line.fragment].outputs:
            lines = [
                seen.get((output, by), _NO_LINE) for by in (Producer(home.participant), line.owner)
            ]
            at_us = differing_us(lines, COMPARED_BUCKETS * self._scenario.widths_us[output])
            if at_us is not None:
                raise Violation(
                    "S15", f"the owner of {line.fragment} in the home of {home.participant} "
                    f"becomes {line.owner}, which has other rows of {output} at {at_us}",
                )  # fmt: skip

    def check_commit(self, home: SimulatedHome, commit: Commit, seen: Lines, log: OwnerLog) -> None:
        """S15: a commit by what its process knew when it decided: rows are the owner's."""
        fragment = commit.lease.key.fragment
        owners = lines_of_fragment(log, fragment)
        if not owners or commit.cause is Cause.IMPORT:
            return
        files = {file.path for given in commit.segments for file in given.files}
        writers = {path.rpartition("/")[2].partition(".")[0] for path in files}
        strangers = writers - {str(home.participant)}
        self.counts["adopted"] += bool(strangers)
        is_stable = all(given.stability is Stability.STABLE for given in commit.segments)
        from_us = min(given.range.from_us for given in commit.segments)
        part = Range(from_us, max(given.range.to_us for given in commit.segments))
        fragment_ = self._scenario.fragments[fragment]
        width_us = max(self._scenario.widths_us[output] for output in fragment_.outputs)
        buckets = range(part.from_us, part.to_us, width_us)
        by = {owner_of(owners, at_us, home.participant) for at_us in buckets}
        where = f"{part} of {fragment} in the home of {home.participant}"
        if strangers:
            if {str(owner.participant) for owner in by} != strangers:
                raise Violation("S15", f"{where} is adopted of {strangers}, its owner is {by}")
        elif writers and commit.cause is Cause.NORMAL and is_stable:
            self._check_computed_here(home, where, part, by, commit, seen)

    def _check_computed_here(
        self, home: SimulatedHome, where: str, part: Range, by: set[Producer], commit: Commit,
        seen: Lines,
    ) -> None:  # fmt: skip
        owner = next(iter(by))
        if len(by) > 1 or owner.participant == home.participant:
            return
        outputs = self._scenario.fragments[commit.lease.key.fragment].outputs
        width_us = max(self._scenario.widths_us[output] for output in outputs)
        first = Range(part.from_us, min(part.from_us + width_us, part.to_us))
        if all(
            is_final_over(seen.get((output, owner), _NO_LINE), first, commit.plan)
            for output in outputs
        ):
            raise Violation("S15", f"{where} is computed, and {owner}, which owns it, has its rows")
        self.counts["not waited for"] += 1

    # of one home

    def force(self, home: SimulatedHome, contract: str) -> Force | None:
        """Whether a contract is in force in a home."""
        terms = home.store.committed.get(TERMS.name, {}).get(ContractName(contract))
        return None if terms is None else terms.force

    def may_be_lost(self, home: SimulatedHome, segment: Segment) -> bool:
        """Whether a gap in a copy lies before all that a move reads which has come here."""
        if home.participant not in self._scenario.moves.providers:
            return False
        needed = [
            self._needed_us(row, segment.stream)
            for row in _moves(home).values()
            if row.state is not MoveState.ENDED
        ]
        return segment.range.to_us <= min((at for at in needed if at is not None), default=2**63)

    def _needed_us(self, row: MoveRow, stream: StreamName) -> int | None:
        """From when on a move needs a stream; None if it does not read it."""
        fragment = self._scenario.fragments[row.fragment]
        if stream not in fragment.input_streams:
            return None
        need = fragment.needed_by_all(Range(_order(row.order)["starts_us"], FOREVER_US)).get(stream)
        return None if need is None else need.from_us

    # in the end

    def unsettled(self, gone: Iterable[Participant]) -> list[str]:
        """The moves that have not come to rest in a home that is there."""
        return [what for home in self._there(gone) for what in self._open_in(home)]

    def _there(self, gone: Iterable[Participant]) -> Iterator[SimulatedHome]:
        away = frozenset(gone)
        yield from (home for name, home in self._homes.items() if name not in away)

    def _open_in(self, home: SimulatedHome) -> Iterator[str]:
        wired: Mapping[str, FragmentRow] = home.store.committed.get(tables.FRAGMENTS.name, {})  # type: ignore[assignment]
        for row in _moves(home).values():
            if row.state is not MoveState.ENDED:
                what = f"move {row.number} of {row.fragment} is {row.state.value}"
                yield f"{what} in the home of {home.participant}"
        for name, fragment in wired.items():
            if name.startswith(MOVED_PREFIX) and not fragment.is_stopped:
                yield f"{name} is deployed in the home of {home.participant}"
        for name in {key[0] for key in owners_in(home)}:
            owner = lines_of_fragment(owners_in(home), name)[-1].owner
            if owner.participant != home.participant and not self._has_ended(home, name):
                yield f"{owner} owns the next bucket of {name}"


def _moves(home: SimulatedHome) -> Rows:
    found: Rows = home.store.committed.get(MOVES.name, {})  # type: ignore[assignment]
    return found


def owners_in(home: SimulatedHome) -> OwnerLog:
    """The log of owners of a home as committed."""
    found: OwnerLog = home.store.committed.get(tables.OWNERS.name, {})  # type: ignore[assignment]
    return found


def lines_of_fragment(log: OwnerLog, fragment: str) -> tuple[OwnerLine, ...]:
    """The log of one fragment, oldest first."""
    return tuple(line for key, line in sorted(log.items()) if key[0] == fragment)


def owner_of(log: Iterable[OwnerLine], at_us: int, here: Participant) -> Producer:
    """Who owns a bucket: the last line of the log that is for it says it."""
    found = [line.owner for line in log if line.from_us <= at_us]
    return found[-1] if found else Producer(here)


def final_us(line: LineRow, before_ms: int | None = None) -> int:
    """Up to where a line is final without a hole, by what had arrived at a time if one is given."""
    begin_us = line.trimmed_us if line.trimmed_us is not None else line.origin_us
    at_us = BEGINNING_US if begin_us is None else begin_us
    for row in line.live:
        is_late = before_ms is not None and row.segment.arrived_ms > before_ms
        if is_late or row.segment.range.from_us > at_us or not row.segment.stability.is_final:
            break
        at_us = max(at_us, row.segment.range.to_us)
    return at_us


def differing_us(lines: Sequence[LineRow], length_us: int) -> int | None:
    """The first of the last buckets of which two lines have final rows, and not the same."""
    marks = [mark for line in lines for mark in (line.origin_us, line.trimmed_us)]
    to_us = min(map(final_us, lines))
    from_us = max(to_us - length_us, *(BEGINNING_US if mark is None else mark for mark in marks))
    if from_us >= to_us:
        return None
    one, other = (_contents(line, Range(from_us, to_us)) for line in lines)
    return min((at_us for at_us, _ in one.items() ^ other.items()), default=None)


def _contents(line: LineRow, part: Range) -> Mapping[int, Digest]:
    """The digests of the buckets in a range that have rows."""
    return {
        at_us: digest
        for row in line.live_over(part)
        for at_us, digest in row.segment.buckets.items()
        if part.holds(at_us)
    }


def is_final_over(line: LineRow, part: Range, plan: object) -> bool:
    """Whether stable rows of a plan cover a range."""
    covered = [
        row.segment.range
        for row in line.live_over(part)
        if row.segment.stability is Stability.STABLE and row.segment.plan == plan
    ]
    return not list(part.without(covered))


@lru_cache(maxsize=256)
def _order(document: str) -> Any:
    return parse_json(document, "the order of a move", "look at the simulator")
