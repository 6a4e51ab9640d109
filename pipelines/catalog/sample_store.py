"""The store of samples in a home: what payers have committed, and what was found of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from medusa_core.grid import Range
from medusa_core.market.samples import Sample
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import Participant, StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLine:
    """A stream that a released move of a contract writes, in the home of either party.

    `seed` is that of the requested period, in the home of the payer (None: there is none). The
    provider is paid for the buckets from `from_us` until before `to_us`. Its rows are final through
    `stable_us` here, all drawn buckets before `through_us` are recomputed, and the first period
    that is not settled begins at `open_us`. The contract says that a share of `rate` is drawn
    (None: it does not say). `is_held`: this home keeps what a recomputation needs, for `hold_ms` at
    most.
    """

    move: int
    is_given: bool
    partner: Participant
    number: int
    fragment: str
    order: str
    from_us: int
    to_us: int | None
    seed: bytes | None
    stream: StreamName
    width_us: int
    stable_us: int | None
    through_us: int | None
    open_us: int | None
    hold_ms: int | None
    is_held: bool
    rate: Decimal | None


class Samples(Protocol):
    """What is committed and found about samples in a home."""

    def lines(
        self, contract: ContractName, period: int, revision: Revision, begins_us: int
    ) -> tuple[SampledLine, ...]:
        """The streams that released moves of a contract write, if their payer has committed: those
        that are paid for in a period that begins at `begins_us` under a revision, or are held."""

    def note(
        self, move: int, stream: StreamName, through_us: int | None, samples: Sequence[Sample]
    ) -> None:
        """Keep what was found; all drawn buckets before `through_us` are recomputed (None: as far
        as before). What was found before of a version of a bucket stays."""

    def found(self, contract: ContractName, part: Range) -> tuple[Sample, ...]:
        """What was found of buckets that begin in a range."""

    def disputed(self) -> tuple[tuple[ContractName, int], ...]:
        """Open disputes about statements of this home in which the payer names wrong samples, and
        which this home has not given up a short time ago."""
