"""The samples in a home in Postgres: every call one statement."""

from __future__ import annotations

import json
from collections.abc import Sequence

from medusa_core.grid import Range
from medusa_core.market.samples import Sample, SampleOutcome
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import Participant, StreamName, Version
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts
from pipelines.catalog.sample_store import SampledLine, Samples


class PostgresSamples(NamedStatements, Samples):
    """A `Samples` in a home, as its job logs in."""

    def lines(
        self, contract: ContractName, period: int, revision: Revision, begins_us: int
    ) -> tuple[SampledLine, ...]:
        """See `Samples.lines`."""
        values = {"period": period, "revision": revision, "begins_us": begins_us}
        rows = self._rows("sampled_lines", contract=contract, **values)
        return tuple(
            SampledLine(
                move=row["move_id"],
                is_given=row["is_given"],
                partner=Participant(row["partner"]),
                number=row["number"],
                fragment=row["fragment"],
                order=row["order_document"],
                from_us=row["from_us"],
                to_us=row["to_us"],
                seed=None if row["seed"] is None else bytes(row["seed"]),
                stream=StreamName(row["stream"]),
                width_us=row["width_us"],
                stable_us=row["stable_us"],
                through_us=row["through_us"],
                open_us=row["open_us"],
                hold_ms=row["hold_ms"],
                is_held=row["is_held"],
                rate=row["verify"],
            )
            for row in rows
        )

    def note(
        self, move: int, stream: StreamName, through_us: int | None, samples: Sequence[Sample]
    ) -> None:
        """See `Samples.note`."""
        found = [
            {
                "from_us": one.range.from_us,
                "to_us": one.range.to_us,
                "outcome": one.outcome.value,
                "stated": one.stated,
                "recomputed": one.recomputed,
                "reason": one.reason[:500],
                "version": one.version,
            }
            for one in samples
        ]
        values = {"stream": stream, "through_us": through_us, "samples": json.dumps(found)}
        self._value("note_samples", move_id=move, **values)

    def found(self, contract: ContractName, part: Range) -> tuple[Sample, ...]:
        """See `Samples.found`."""
        rows = self._rows("samples", contract=contract, from_us=part.from_us, to_us=part.to_us)
        return tuple(
            Sample(
                number=row["number"],
                stream=StreamName(row["stream"]),
                range=Range(row["from_us"], row["to_us"]),
                outcome=SampleOutcome(row["outcome"]),
                stated=row["stated"],
                recomputed=row["recomputed"],
                reason=row["reason"],
                version=Version(row["version"]),
            )
            for row in rows
        )

    def disputed(self) -> tuple[tuple[ContractName, int], ...]:
        """See `Samples.disputed`."""
        rows = self._rows("disputed_samples")
        return tuple((ContractName(row["contract"]), row["period"]) for row in rows)


def open_samples(url: str) -> PostgresSamples:
    """The samples of the home at `url`; one connection."""
    return PostgresSamples(engine_with_timeouts(url))
