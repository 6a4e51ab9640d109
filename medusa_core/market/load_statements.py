"""Statements of movement contracts: what moved fragments have computed, at the agreed prices.

What is billed is reference load: the records that a moved fragment has read and written, which both
homes hold, times the CPU microseconds a record that the contract names. Metered CPU is information,
never the bill. A provider is paid for the buckets that are final in the home of the payer, from the
first one that the payer adopted until it took the fragment back. The payer's own statement pays
nothing for a range in which a sample of the results was wrong (`samples.py`), and names the sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256

from medusa_core.digest import EMPTY, Digest
from medusa_core.grid import Range
from medusa_core.market.bill_statements import (
    DIGEST_LENGTH,
    BilledRange,
    Charge,
    ChargeKind,
    Statement,
    charge_of,
    digest_text,
    penalty_charge,
    statement_of,
)
from medusa_core.market.money import ZERO, seconds_of
from medusa_core.market.samples import Sample, SampleOutcome
from medusa_core.market.settlement_periods import CHARGES_MAX, SettlementPeriod
from medusa_core.market.terms import Movement, is_named
from medusa_core.names import FragmentName, StreamName

FEW_MOVES, JOINED = 10, 8
"""Up to FEW_MOVES moves have a charge for each JOINED ranges, more of them one for each period."""

SAMPLES_MAX = 32
"""The most wrong samples in a statement, one for each charge that is not paid."""

GRAIN_US = 1_000_000
"""Ranges of a period are whole multiples of it."""

Reference = Mapping[StreamName, int]
"""Stream -> CPU nanoseconds for each of its records that a fragment reads or writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledMove:
    """A move that was released, as both parties know it, and its price an hour and unit of load.

    The provider is paid for the buckets from `from_us` until before `to_us` (None: it goes on).
    `lost_us` is the first bucket that it owes (None: none).
    """

    number: int
    fragment: str
    price: Decimal
    from_us: int
    to_us: int | None
    lost_us: int | None

    @property
    def subject(self) -> str:
        """By which charges name it."""
        return f"{self.number}/{self.fragment}"

    def within(self, period: SettlementPeriod) -> Range | None:
        """The part of a period for which the provider is paid."""
        from_us = max(self.from_us, period.range.from_us)
        to_us = period.range.to_us if self.to_us is None else min(self.to_us, period.range.to_us)
        return Range(from_us, to_us) if from_us < to_us else None


def reference_of(movement: Movement, fragment: str) -> Reference:
    """What a contract says of a fragment, NETWORK/FRAGMENT; empty if its load is not billed."""
    name = FragmentName(fragment.replace("/", "."))
    found: dict[StreamName, int] = {}
    for text in sorted(movement.reference or ()):
        of, _, rest = text.partition("/")
        stream, _, cpu_us = rest.partition("=")
        # NETWORK.FRAGMENT goes before FRAGMENT, which may stand for several.
        if is_named(name, (FragmentName(of),)) and (stream not in found or "." in of):
            whole, _, part = cpu_us.partition(".")
            found[StreamName(stream)] = int(whole + part.ljust(3, "0"))
    return found


def load_statement(
    period: SettlementPeriod,
    moves: Sequence[BilledMove],
    ranges: Iterable[BilledRange],
    samples: Iterable[Sample] = (),
) -> Statement:
    """The statement of a movement contract: reference load by move and range, less penalties.

    `ranges` are what was counted in the period, with subjects MOVE/STREAM: single buckets, and
    older ones together. What was counted behind the end of a move is left out. `samples` are what
    the payer has recomputed in the period.
    """
    movement = period.terms.subject
    if not isinstance(movement, Movement):
        raise ValueError(f"contract {period.terms.contract} moves nothing")
    counted: dict[int, list[tuple[StreamName, BilledRange]]] = {}
    for one in ranges:
        number, _, stream = one.subject.partition("/")
        counted.setdefault(int(number), []).append((StreamName(stream), one))
    cut_us = period.cut_us(GRAIN_US)
    begun = [move for move in moves if move.from_us < period.range.to_us]
    joined_us = cut_us * _joined(len(begun))
    charges: list[Charge] = []
    for move in begun:
        reference = reference_of(movement, move.fragment)
        of_it = counted.get(move.number, ())
        charges += _load_charges(period, move, reference, of_it, joined_us)
        charges += _penalties(period, movement, move, cut_us)
    return statement_of(period, _withheld(period, charges, begun, samples))


def _joined(moves: int) -> int:
    """How many ranges are one charge, so that a statement is not too long.

    It depends on how many moves there are and not on when they ended, which a home may learn late.
    """
    if moves > FEW_MOVES:
        return CHARGES_MAX
    return 1 if moves == 1 else JOINED


def _load_charges(
    period: SettlementPeriod,
    move: BilledMove,
    reference: Reference,
    counted: Iterable[tuple[StreamName, BilledRange]],
    joined_us: int,
) -> Iterator[Charge]:
    paid = move.within(period)
    if paid is None:
        return
    cells: dict[int, dict[StreamName, Digest]] = {}
    for stream, one in counted:
        if stream not in reference or not one.range.overlaps(paid):
            continue
        begins_us = period.range.from_us
        begins_us += (one.range.from_us - begins_us) // joined_us * joined_us
        cell = cells.setdefault(begins_us, {})
        cell[stream] = cell.get(stream, EMPTY) + one.digest
    for begins_us, streams in sorted(cells.items()):
        cell_range = paid.intersection(Range(begins_us, begins_us + joined_us))
        cpu_ns = sum(reference[name] * digest.rows for name, digest in streams.items())
        if cell_range is not None and cpu_ns:
            yield charge_of(
                ChargeKind.LOAD, move.subject, period.number, cell_range, seconds_of(cpu_ns),
                move.price, _digest_of(streams),
            )  # fmt: skip


def _withheld(
    period: SettlementPeriod,
    charges: Sequence[Charge],
    moves: Iterable[BilledMove],
    samples: Iterable[Sample],
) -> Sequence[Charge]:
    """The charges without the price of those in which a sample is wrong, and these samples."""
    of_number = {move.number: move for move in moves}
    found = {(c.subject, c.from_us, c.to_us): c for c in charges if c.kind is ChargeKind.LOAD}
    others = [charge for charge in charges if charge.kind is not ChargeKind.LOAD]
    withheld = 0
    for sample in sorted(samples, key=lambda one: (one.range, one.subject)):
        move = of_number.get(sample.number)
        if sample.outcome is not SampleOutcome.DIFFERS or move is None:
            continue
        for key, charge in found.items():
            is_in_it = key[0] == move.subject and key[1] <= sample.range.from_us < key[2]
            if is_in_it and charge.price and withheld < SAMPLES_MAX:
                withheld += 1
                found[key] = replace(charge, price=ZERO, amount=ZERO)
                others.append(sample_charge(period.number, sample))
    return [*found.values(), *others]


def sample_charge(period: int, sample: Sample) -> Charge:
    """A wrong sample, as the payer's statement names it."""
    return charge_of(
        ChargeKind.SAMPLE, sample.subject, period, sample.range, ZERO, ZERO, sample.digests
    )


def _digest_of(streams: Mapping[StreamName, Digest]) -> str:
    text = "".join(f"{stream} {digest_text(streams[stream])}\n" for stream in sorted(streams))
    return sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def _penalties(
    period: SettlementPeriod, movement: Movement, move: BilledMove, cut_us: int
) -> Iterator[Charge]:
    """The penalty for the loss of a provider that promised a bound."""
    if move.lost_us is None or movement.availability.bound_ms is None:
        return
    lost_us = max(move.lost_us, move.from_us)
    if period.range.holds(lost_us):
        part = Range(lost_us, lost_us + cut_us)
        yield from penalty_charge(period.number, move.subject, part, movement.penalty)
