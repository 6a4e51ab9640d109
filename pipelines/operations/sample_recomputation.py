"""What recomputes samples of moved load in a home; the engine is loaded when it is needed first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.grid import Range
from medusa_core.market.samples import Sample
from medusa_core.names import Participant, StreamName, Version
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.market.moves.move_order import MoveOrder
from pipelines.market.settlement.sample_sync import BucketRecomputation

if TYPE_CHECKING:
    from pipelines.quality.moved_samples import MovedSamples


def recomputes(storage: Path) -> Callable[[PostgresCatalog], BucketRecomputation]:
    """Makes the recomputation of a home with this storage root."""
    return partial(_WithoutEngine, storage)


@dataclass(frozen=True)
class _WithoutEngine(BucketRecomputation):
    """DuckDB is not loaded into programs that recompute nothing."""

    storage: Path
    catalog: PostgresCatalog

    def recompute(
        self, order: MoveOrder, provider: Participant, stream: StreamName, parts: Sequence[Range]
    ) -> tuple[Sample, ...]:
        """See `BucketRecomputation.recompute`."""
        return self._samples.recompute(order, provider, stream, parts)

    def versions(
        self, order: MoveOrder, provider: Participant, stream: StreamName, parts: Sequence[Range]
    ) -> tuple[Version, ...]:
        """See `BucketRecomputation.versions`."""
        return self._samples.versions(order, provider, stream, parts)

    def needs_us(
        self, order: MoveOrder, stream: StreamName, from_us: int
    ) -> Mapping[StreamName, int]:
        """See `BucketRecomputation.needs_us`."""
        return self._samples.needs_us(order, stream, from_us)

    @cached_property
    def _samples(self) -> MovedSamples:
        from pipelines.quality.moved_samples import MovedSamples

        return MovedSamples(self.catalog, self.storage)
