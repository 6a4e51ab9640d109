"""What the papers say of the four methods, beside which the measurement is printed."""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.market.terms import Method

CLASS_NAMES: Mapping[str, str] = {
    "filter": "repeatable",
    "windows": "convergent-capable",
    "groups": "deterministic",
}
GUARANTEES: Mapping[Method, Mapping[str, str]] = {
    Method.AMNESIA: dict.fromkeys(CLASS_NAMES, "gap"),
    Method.PASSIVE_STANDBY: dict.fromkeys(CLASS_NAMES, "repeating"),
    Method.ACTIVE_STANDBY: dict.fromkeys(CLASS_NAMES, "repeating"),
    Method.UPSTREAM_BACKUP: {
        "filter": "repeating",
        "windows": "convergent",
        "groups": "divergent",
    },
}
"""The best kind of recovery without extra work, by class of operators (ICDE 2005)."""

ARBITRARY: Mapping[Method, str] = dict.fromkeys(Method, "divergent") | {Method.AMNESIA: "gap"}
OVERHEAD: Mapping[Method, str] = {
    Method.AMNESIA: "none",
    Method.PASSIVE_STANDBY: "between, by the period of checkpoints",
    Method.ACTIVE_STANDBY: "100 % or more",
    Method.UPSTREAM_BACKUP: "almost none",
}
RECOVERY: Mapping[Method, str] = {
    Method.AMNESIA: "detection and restart",
    Method.PASSIVE_STANDBY: "second",
    Method.ACTIVE_STANDBY: "first",
    Method.UPSTREAM_BACKUP: "last",
}
ORDER = (Method.ACTIVE_STANDBY, Method.PASSIVE_STANDBY, Method.UPSTREAM_BACKUP)
"""By recovery time, the shortest first."""
