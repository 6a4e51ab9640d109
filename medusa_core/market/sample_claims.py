"""What a provider checks of a payer's answer before it takes the samples in it as a dispute.

A payer may withhold the price of a range only for a bucket that was drawn from the seed that it
committed to, and that it pays for. Whether the rows of that bucket are wrong is found by computing
them again; this is about whether the payer was free to choose the bucket.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from medusa_core.errors import Refused
from medusa_core.grid import Range, floor_us
from medusa_core.market.bill_comparison import StatementComparison
from medusa_core.market.bill_statements import Charge, ChargeKind, Statement
from medusa_core.market.samples import Draw, Sample, SampleOutcome, is_committed
from medusa_core.names import StreamName, check_name

_SUBJECT = re.compile(r"(?P<number>[1-9][0-9]{0,15})/(?P<stream>[^/]+)", re.ASCII)

Seeds = Mapping[int, bytes]
"""The number of a move -> the seed that the payer has revealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """What the payer of a move has committed to, and what the provider is paid for of it.

    Seeds are those of the settlement periods from `first_period` on. `widths_us` are those of the
    streams that the fragment writes. `rate` is the share of buckets that the contract says.
    """

    number: int
    fragment: str
    commitment: bytes
    first_period: int
    from_us: int | None
    to_us: int | None
    widths_us: Mapping[StreamName, int]
    rate: Decimal | None = None

    @property
    def subject(self) -> str:
        """The subject of the move's charges of load."""
        return f"{self.number}/{self.fragment}"

    def pays(self, at_us: int) -> bool:
        """Whether the bucket at a time is one that the provider is paid for."""
        is_behind = self.from_us is not None and self.from_us <= at_us
        return is_behind and (self.to_us is None or at_us < self.to_us)


def wrong_samples(own: Statement) -> tuple[Sample, ...]:
    """The wrong samples that a payer's own statement names."""
    return tuple(_sample(one) for one in own.charges if one.kind is ChargeKind.SAMPLE)


def check_seeds(period: int, seeds: Seeds, commitments: Sequence[Commitment]) -> None:
    """Refused for a revealed seed that the payer has not committed."""
    known = {one.number: one for one in commitments}
    for number, seed in seeds.items():
        one = known.get(number)
        if one is None:
            raise Refused(f"the payer reveals a seed for move {number}, and has committed none")
        if not is_committed(one.commitment, period - one.first_period, seed):
            raise Refused(
                f"the payer reveals another seed for move {number} than it has committed: its "
                f"samples of period {period} are of its own choice"
            )


def check_samples(
    claimed: Statement, own: Statement, seeds: Seeds, commitments: Sequence[Commitment]
) -> None:
    """Refused unless each charge that the payer does not pay has a wrong sample that was drawn."""
    known = {one.number: one for one in commitments}
    samples = wrong_samples(own)
    for sample in samples:
        _check_drawn(claimed, sample, seeds, known.get(sample.number))
    prices = {charge.key: charge.price for charge in claimed.charges}
    for charge in own.charges:
        is_withheld = charge.kind is ChargeKind.LOAD and not charge.price
        is_claimed = charge.key in prices and bool(prices[charge.key])
        is_explained = any(_is_in(sample, charge, known) for sample in samples)
        if is_withheld and is_claimed and not is_explained:
            raise Refused(
                f"the payer pays nothing for the load of {charge.subject} from {charge.from_us} on "
                "and names no wrong sample there"
            )


def is_conceded(comparison: StatementComparison, judged: Callable[[Sample], Sample | None]) -> bool:
    """Whether a provider gives a dispute up: wrong samples are all that differs, and its own
    recomputation of each (`judged`) gives the payer's rows."""
    samples = wrong_samples(comparison.own)
    withheld = {
        (charge.subject, charge.from_us)
        for charge in comparison.own.charges
        if charge.kind is ChargeKind.LOAD and not charge.price
    }
    return bool(samples) and all(
        one.kind is ChargeKind.SAMPLE
        or (one.kind is ChargeKind.LOAD and (one.subject, one.from_us) in withheld)
        for one in comparison.differences
    ) and all(_is_admitted(sample, judged(sample)) for sample in samples)  # fmt: skip


def _is_admitted(claimed: Sample, judged: Sample | None) -> bool:
    return (
        judged is not None
        and judged.outcome is SampleOutcome.DIFFERS
        and judged.digests == claimed.digests
    )


def _check_drawn(
    claimed: Statement, sample: Sample, seeds: Seeds, known: Commitment | None
) -> None:
    what = f"the bucket of {sample.stream} at {sample.range.from_us} of move {sample.number}"
    if known is None or sample.number not in seeds:
        raise Refused(f"the payer disputes {what} and reveals no seed that it had committed")
    width_us = known.widths_us.get(sample.stream)
    if width_us is None or sample.range != _bucket(sample.range.from_us, width_us):
        raise Refused(f"the payer disputes {what}, which is no bucket that the fragment writes")
    period = Range(claimed.from_ms * 1_000, claimed.to_ms * 1_000)
    if not (period.holds(sample.range.from_us) and known.pays(sample.range.from_us)):
        raise Refused(f"the payer disputes {what}, which it does not pay for in this period")
    draw = Draw(seeds[sample.number], known.rate)
    if not draw.has(sample.stream, sample.range.from_us):
        raise Refused(f"the payer disputes {what}, which was not drawn from its seed")
    if sample.stated == sample.recomputed:
        raise Refused(f"the payer disputes {what} and names the same rows twice")


def _bucket(at_us: int, width_us: int) -> Range:
    from_us = floor_us(at_us, width_us)
    return Range(from_us, from_us + width_us)


def _is_in(sample: Sample, charge: Charge, known: Mapping[int, Commitment]) -> bool:
    """Whether a charge is the load of the range that a sample is in."""
    move = known.get(sample.number)
    is_of_move = move is not None and move.subject == charge.subject
    return is_of_move and charge.from_us <= sample.range.from_us < charge.to_us


def _sample(charge: Charge) -> Sample:
    named = _SUBJECT.fullmatch(charge.subject)
    stated, is_pair, recomputed = charge.digest.partition(":")
    if named is None or not is_pair:
        raise Refused("a statement names a sample without its move, its stream and two digests")
    return Sample(
        number=int(named["number"]),
        stream=StreamName(check_name("stream", named["stream"])),
        range=Range(charge.from_us, charge.to_us),
        outcome=SampleOutcome.DIFFERS,
        stated=stated,
        recomputed=recomputed,
    )
