"""What each method of availability costs and gives, with each recovery.

In Medusa a bucket is a pure function of its inputs, so that every network is deterministic and
repeats its rows. A final row has one version for good, so that a reader which counts versions sees
no row twice: precise recovery costs nothing beyond rollback. With gap, buckets of the outage are
not computed afterwards.

Source: ICDE 2005 (high availability algorithms for distributed stream processing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.availability.measured_figures import MS_US, SECOND_US, FragmentFigures
from medusa_core.market.terms import Method, Recovery, is_possible

STRENGTH: Mapping[Recovery, int] = {Recovery.GAP: 0, Recovery.ROLLBACK: 1, Recovery.PRECISE: 2}
"""A stronger recovery meets each promise of a weaker one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCost:
    """What a method takes while nothing fails: CPU seconds and bytes over links per second, and
    bytes that are kept."""

    cpu: float
    link_bytes: float
    kept_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailabilityOption:
    """A method with a recovery: what it costs, and what the loss of the participant does, at worst.

    `recovery_ms` is the time until outputs are as far as without the failure (None: never).
    `lost_us` of the outputs is a gap, and `repeated_rows` are sent a second time to readers that do
    not count versions.
    """

    method: Method
    recovery: Recovery
    cost: MethodCost
    recovery_ms: float | None
    lost_us: float
    repeated_rows: float

    def meets(self, recovery: Recovery, bound_ms: float | None) -> bool:
        """Whether it gives at least this recovery within this time (None: within any)."""
        if self.recovery_ms is None or STRENGTH[self.recovery] < STRENGTH[recovery]:
            return False
        return bound_ms is None or self.recovery_ms <= bound_ms


def options_of(figures: FragmentFigures) -> tuple[AvailabilityOption, ...]:
    """Every possible method and recovery of a fragment, in the order of both enumerations."""
    return tuple(
        _option(figures, method, recovery)
        for method in Method
        for recovery in Recovery
        if is_possible(method, recovery)
    )


def cost_of_method(figures: FragmentFigures, method: Method) -> MethodCost:
    """What a method takes while nothing fails."""
    records_us = figures.copy_us.value / SECOND_US
    inputs, outputs = figures.input_bytes.value, figures.output_bytes.value
    open_s = (figures.reach_us + figures.width_us) / SECOND_US
    unread_s = (figures.unread_us.value + figures.width_us) / SECOND_US
    match method:
        case Method.AMNESIA:
            return MethodCost(cpu=0.0, link_bytes=0.0, kept_bytes=0.0)
        case Method.PASSIVE_STANDBY:
            return MethodCost(
                cpu=figures.output_records.value * records_us,
                link_bytes=outputs,
                kept_bytes=inputs * open_s + outputs * unread_s,
            )
        case Method.ACTIVE_STANDBY:
            copied = figures.input_records.value + figures.output_records.value
            return MethodCost(
                cpu=figures.cpu.value + copied * records_us,
                link_bytes=inputs + outputs,
                kept_bytes=inputs * open_s + outputs * unread_s,
            )
        case Method.UPSTREAM_BACKUP:
            kept_s = figures.reach_us / SECOND_US + unread_s
            return MethodCost(cpu=0.0, link_bytes=0.0, kept_bytes=inputs * kept_s)


def _option(figures: FragmentFigures, method: Method, recovery: Recovery) -> AvailabilityOption:
    again_us = _computed_again_us(figures, method)
    lost_us, recovery_ms = _outage(figures, method, recovery, again_us)
    may_repeat = recovery is Recovery.ROLLBACK
    return AvailabilityOption(
        method=method,
        recovery=recovery,
        cost=cost_of_method(figures, method),
        recovery_ms=recovery_ms,
        lost_us=lost_us,
        repeated_rows=figures.output_records.value * again_us / SECOND_US if may_repeat else 0.0,
    )


def _computed_again_us(figures: FragmentFigures, method: Method) -> float:
    """Of how much of the outputs rows that were sent before the failure are computed again."""
    match method:
        case Method.PASSIVE_STANDBY:
            return figures.width_us + figures.link_ms.value * MS_US
        case Method.UPSTREAM_BACKUP:
            return figures.unread_us.value + figures.width_us + figures.link_ms.value * MS_US
        case Method.AMNESIA | Method.ACTIVE_STANDBY:
            return 0.0


def _outage(
    figures: FragmentFigures, method: Method, recovery: Recovery, again_us: float
) -> tuple[float, float | None]:
    """What of the outputs is lost, and how long it takes until they are complete again."""
    noticed_us = figures.noticed_ms * MS_US
    if method is Method.ACTIVE_STANDBY:
        return 0.0, _sum(2 * figures.link_ms.value, figures.catch_up_ms(0))
    if method is Method.AMNESIA:
        # The records of the outage are gone: the first row that lacks none is a reach later.
        lost_us = noticed_us + figures.reach_us + figures.width_us
        return lost_us, _sum(lost_us / MS_US, figures.catch_up_ms(0))
    behind_us = 0.0 if recovery is Recovery.GAP else noticed_us + again_us
    fetched_ms = figures.fetch_ms(figures.reach_us + behind_us)
    lost_us = noticed_us + again_us if recovery is Recovery.GAP else 0.0
    return lost_us, _sum(figures.noticed_ms + fetched_ms, figures.catch_up_ms(behind_us))


def _sum(fixed_ms: float, more_ms: float | None) -> float | None:
    return None if more_ms is None else fixed_ms + more_ms
