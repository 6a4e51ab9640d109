"""A home's part in samples: the payer recomputes what it has drawn, the provider what is disputed.

Numbered, and the same numbers are in the code:

1. both homes keep what a recomputation needs: the payer until it has recomputed what it drew, the
   provider until the payer has answered its statement, and no longer than the contract's `hold_max`
2. the payer recomputes the drawn buckets as they become final, and states a period when it has
   done so for all of them; before that it recomputes those again whose rows were replaced since
3. the provider recomputes the buckets that the payer disputes, and takes the payer's statement if
   it finds the payer's rows; else the dispute stays open, and people decide

A file that cannot be read now may be back a little later: for AWAY_S what needs it is tried again,
and the period waits. After that its buckets are not verifiable.

What is found is stored before anything follows from it, so that a program that was killed continues
with the next bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.fragments import Move
from medusa_core.grid import Range, ceil_us, floor_us
from medusa_core.market.bill_comparison import compare_statements
from medusa_core.market.documents import revision_of
from medusa_core.market.sample_claims import is_conceded, wrong_samples
from medusa_core.market.samples import UNKNOWN, Draw, Sample, not_verifiable
from medusa_core.market.settlement_periods import SettlementPeriod
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant, StreamName, Version
from pipelines.base import clock
from pipelines.base.failpoints import reached
from pipelines.catalog.processing_roles import Readers
from pipelines.catalog.sample_store import SampledLine, Samples
from pipelines.catalog.settlement_store import Settlements
from pipelines.market.moves.move_order import MoveOrder, order_in

PURPOSE = "samples"
A_LOOK = 16
"""The most buckets of a line that are recomputed at a time: other work of the loop goes on."""

AWAY_S = 3_600.0
"""For how long a recomputation is tried again that cannot read what it needs."""


class BucketRecomputation(Protocol):
    """Computes buckets of a moved fragment again, from the inputs that this home holds."""

    def recompute(
        self, order: MoveOrder, provider: Participant, stream: StreamName, parts: Sequence[Range]
    ) -> tuple[Sample, ...]:
        """What is found of each of these buckets of the provider's line, in order; Unavailable if
        what it needs cannot be read now."""

    def versions(
        self, order: MoveOrder, provider: Participant, stream: StreamName, parts: Sequence[Range]
    ) -> tuple[Version, ...]:
        """The version of the provider's rows in each of these buckets, UNKNOWN without any."""

    def needs_us(
        self, order: MoveOrder, stream: StreamName, from_us: int
    ) -> Mapping[StreamName, int]:
        """From where on each input is needed to compute a stream from a bucket on."""


class SampleSync:
    """Recomputes samples in the home of `here`; `buckets_max` of a line at a time."""

    def __init__(
        self,
        samples: Samples,
        settlements: Settlements,
        readers: Readers,
        here: Participant,
        recomputation: BucketRecomputation,
        on_error: Callable[[Exception], None] = lambda error: None,
        *,
        buckets_max: int = A_LOOK,
        away_s: float = AWAY_S,
    ) -> None:
        self._samples = samples
        self._settlements = settlements
        self._readers = readers
        self._here = here
        self._recomputation = recomputation
        self._on_error = on_error
        self._buckets_max = buckets_max
        self._away_s = away_s
        self._away_since_s: dict[tuple[int, StreamName], float] = {}
        self._held: dict[tuple[str, StreamName], int] = {}

    def verify(self, contract: ContractName, period: SettlementPeriod) -> bool:
        """Recompute what was drawn of a period and is final; whether that is all of it."""
        is_done = True
        revision, begins_us = revision_of(period.terms), period.range.from_us
        for line in self._samples.lines(contract, period.number, revision, begins_us):
            order = self._order(line)
            if line.is_given:
                is_done = self._verify(line, order, period) and is_done
            else:
                self._hold(contract, line, order, line.open_us)
        return is_done

    def look_again(self, contract: ContractName, period: SettlementPeriod) -> bool:
        """Recompute what the provider has replaced since it was looked at; whether that is all."""
        is_done = True
        found = self.found(contract, period)
        revision, begins_us = revision_of(period.terms), period.range.from_us
        for line in self._samples.lines(contract, period.number, revision, begins_us):
            if line.is_given:
                of_line = [s for s in found if (s.number, s.stream) == (line.number, line.stream)]
                is_done = self._look_again(line, of_line) and is_done
        return is_done

    def found(self, contract: ContractName, period: SettlementPeriod) -> tuple[Sample, ...]:
        """What was found of a period."""
        return self._samples.found(contract, period.range)

    def judge(self) -> int:
        """Recompute what payers dispute, and give up what is as they say; how often."""
        conceded = 0
        for contract, period in self._samples.disputed():
            try:
                conceded += self._is_conceded(contract, period)
            except (Conflict, Refused) as error:
                self._on_error(error)
        return conceded

    def _verify(self, line: SampledLine, order: MoveOrder, period: SettlementPeriod) -> bool:
        from_us = max(line.from_us, period.range.from_us, line.through_us or line.from_us)
        paid_us = min(period.range.to_us, line.to_us or period.range.to_us)
        final_us = from_us if line.stable_us is None else floor_us(line.stable_us, line.width_us)
        to_us = min(ceil_us(paid_us, line.width_us), final_us)
        contract = ContractName(period.terms.contract)
        self._hold(contract, line, order, from_us)  # 1
        if line.seed is None or from_us >= to_us:
            return True
        draw = Draw(line.seed, line.rate)
        parts = draw.buckets(line.stream, Range(from_us, to_us), line.width_us)
        chosen = list(islice(parts, self._buckets_max + 1))
        is_done = len(chosen) <= self._buckets_max
        through_us = to_us if is_done else chosen.pop().from_us
        samples = self._recomputed(line, order, line.partner, chosen)  # 2
        if samples is None:
            return False
        reached("samples.recomputed")
        self._samples.note(line.move, line.stream, through_us, samples)
        reached("samples.noted")
        return is_done

    def _look_again(self, line: SampledLine, found: Sequence[Sample]) -> bool:
        order, parts = self._order(line), [one.range for one in found]
        versions = self._recomputation.versions(order, line.partner, line.stream, parts)
        replaced = [
            one.range
            for one, version in zip(found, versions, strict=True)
            if UNKNOWN < one.version < version
        ]
        again = self._recomputed(line, order, line.partner, replaced[: self._buckets_max])
        if again:
            self._samples.note(line.move, line.stream, None, again)
        return again is not None and len(replaced) <= self._buckets_max

    def _recomputed(
        self, line: SampledLine, order: MoveOrder, provider: Participant, parts: Sequence[Range]
    ) -> tuple[Sample, ...] | None:
        """What is found of buckets; None while what they need is away for no longer than AWAY_S."""
        if not parts:
            return ()
        of, now_s = (line.move, line.stream), clock.monotonic_s()
        try:
            found = self._recomputation.recompute(order, provider, line.stream, parts)
        except Unavailable as error:
            if of not in self._away_since_s:
                self._on_error(error)
            if now_s - self._away_since_s.setdefault(of, now_s) < self._away_s:
                return None
            return tuple(self._given_up(line, order, provider, part) for part in parts)
        self._away_since_s.pop(of, None)
        return found

    def _given_up(
        self, line: SampledLine, order: MoveOrder, provider: Participant, part: Range
    ) -> Sample:
        """What is found of one bucket: others may need what is away."""
        try:
            (found,) = self._recomputation.recompute(order, provider, line.stream, [part])
        except Unavailable as error:
            (version,) = self._recomputation.versions(order, provider, line.stream, [part])
            return not_verifiable(line.number, line.stream, part, str(error), version)
        return found

    def _is_conceded(self, contract: ContractName, period: int) -> bool:
        known = self._settlements.bill_of_period(contract, period)
        if known is None or known.own is None or not known.is_open:
            return False
        samples = wrong_samples(known.own)
        part = Range(known.claimed.from_ms * 1_000, known.claimed.to_ms * 1_000)
        found = self._samples.lines(contract, period, known.own.revision, part.from_us)
        lines = {(one.number, one.stream): one for one in found}
        for sample in self._unknown(contract, part, samples):
            line = lines.get((sample.number, sample.stream))
            if line is not None:
                again = self._recomputed(line, self._order(line), self._here, [sample.range])  # 3
                if again is None:
                    continue
                self._samples.note(line.move, line.stream, None, again)
                reached("samples.judged")
        judged = {(s.number, s.stream, s.range): s for s in self._samples.found(contract, part)}
        comparison = compare_statements(known.claimed, known.own)
        if not is_conceded(comparison, lambda s: judged.get((s.number, s.stream, s.range))):
            return False
        return self._settlements.concede(contract, period)

    def _unknown(
        self, contract: ContractName, part: Range, samples: Sequence[Sample]
    ) -> tuple[Sample, ...]:
        """Those that this home has not recomputed."""
        known = {(s.number, s.stream, s.range) for s in self._samples.found(contract, part)}
        return tuple(s for s in samples if (s.number, s.stream, s.range) not in known)

    def _order(self, line: SampledLine) -> MoveOrder:
        payer = self._here if line.is_given else line.partner
        return order_in(line.order, Move(payer, line.number), line.fragment)

    def _is_over(self, line: SampledLine) -> bool:
        """Whether nothing of a move is to be recomputed any more."""
        through_us = line.through_us if line.is_given else line.open_us
        return line.to_us is not None and (through_us or line.from_us) >= line.to_us

    def _hold(
        self, contract: ContractName, line: SampledLine, order: MoveOrder, from_us: int | None
    ) -> None:
        """Keep the stream from a bucket on, and what it is computed from; None: nothing."""
        holder = f"contract:{contract}/{line.number}/{line.stream}"
        if from_us is None or self._is_over(line):
            if line.is_held:
                for stream in (line.stream, *(one.stream.name for one in order.inputs)):
                    self._readers.release_hold(stream, holder, PURPOSE)
            return
        first_us = max(from_us, line.from_us)
        needs = self._recomputation.needs_us(order, line.stream, first_us)
        for stream, needed_us in {line.stream: first_us, **needs}.items():
            if line.is_held and self._held.get((holder, stream)) == needed_us:
                continue
            self._held[holder, stream] = needed_us
            self._readers.place_hold(
                Hold(
                    stream=stream,
                    holder=holder,
                    purpose=PURPOSE,
                    from_us=needed_us,
                    limit_ms=line.hold_ms,
                )
            )
