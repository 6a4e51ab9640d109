"""The figures of a fragment from which costs of availability are computed, measured or assumed."""

from __future__ import annotations

from dataclasses import dataclass, fields

from medusa_core.errors import Refused

MS_US = 1_000
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of 0 or more; `assumption` says why it is not measured (None: it is)."""

    value: float
    assumption: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.value < float("inf"):
            raise Refused(f"a figure of {self.value} is not valid: give a number of 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentFigures:
    """What is known of a fragment and of the home that would take it over.

    `cpu` is CPU seconds per second. Records and bytes are per second of event time, of all inputs
    and all outputs. `width_us` is the widest output's bucket, `reach_us` how far before a row the
    records begin that it needs. `unread_us` is how much of the outputs readers have not
    acknowledged yet. A step takes `step_ms` and `record_us` for each record. `takeover_ms` is
    the time from a failure until another process begins. `link_ms` is the delay to it,
    `link_bytes` what passes in a second; a copied record takes `copy_us` of CPU.
    """

    fragment: str
    width_us: int
    reach_us: int
    unread_us: Figure
    cpu: Figure
    input_records: Figure
    input_bytes: Figure
    output_records: Figure
    output_bytes: Figure
    step_ms: Figure
    record_us: Figure
    takeover_ms: Figure
    link_ms: Figure
    link_bytes: Figure
    copy_us: Figure

    @property
    def assumptions(self) -> tuple[tuple[str, Figure], ...]:
        """The figures that are not measured, by name."""
        known = ((f.name, getattr(self, f.name)) for f in fields(self))
        return tuple(
            (name, figure)
            for name, figure in known
            if isinstance(figure, Figure) and figure.assumption is not None
        )

    @property
    def noticed_ms(self) -> float:
        """From a failure until another participant begins: never sooner than a round trip."""
        return max(self.takeover_ms.value, 2 * self.link_ms.value)

    @property
    def utilisation(self) -> float:
        """Which share of the time steps of many records take; 1 or more never catches up."""
        return self.input_records.value * self.record_us.value / SECOND_US

    def catch_up_ms(self, behind_us: float) -> float | None:
        """How long until what is so far behind is computed, and what arrives meanwhile; None:
        never.

        A step takes a fixed time, and its records a share `utilisation` of theirs.
        """
        free = 1 - self.utilisation
        if free <= 0:
            return None
        behind_ms = (behind_us + self.reach_us) / MS_US
        return (self.step_ms.value + behind_ms * self.utilisation) / free

    def fetch_ms(self, span_us: float) -> float:
        """How long a copy of the inputs of a span takes."""
        if not self.link_bytes.value:
            return 0.0
        needed = self.input_bytes.value * span_us / SECOND_US
        return self.link_ms.value + 1_000 * needed / self.link_bytes.value


def record_cost(seen_us: Figure, cpu: Figure, records: Figure) -> Figure:
    """What a record adds to a step, as seen in large steps, but never more than all that is
    metered for a record.

    A large step is often a first one, which a cold engine made slow; many records together never
    cost more than the same records in many small steps.
    """
    spent_us = cpu.value * SECOND_US
    if cpu.assumption is not None or not spent_us or spent_us >= seen_us.value * records.value:
        return seen_us
    return Figure(spent_us / records.value)
