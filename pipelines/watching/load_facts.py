"""Facts about a home's load now: what its drivers spend, on which fragments, at which cost.

The cost function itself is not among them; but marginal costs at many loads reveal it, so these
facts are for the owner of the home alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.loads import ActivityKind, Load, load_of
from pipelines.catalog.reading_roles import LoadLog

if TYPE_CHECKING:
    from medusa_core.market.declared import DeclaredCost


def load_facts(catalog: LoadLog, clock_ms: int) -> Mapping[str, Any] | None:
    """Loads in CPU seconds per second, costs per hour and unit of load; None: nothing runs here.

    `declared` and every `marginal_cost` are None where the owner has declared no cost function.
    """
    from medusa_core.market.declared import marginal_costs

    load = load_of(catalog.loads_since(), clock_ms)
    if load is None:
        return None
    declared = catalog.declared_cost()
    costs = {} if declared is None else marginal_costs(declared, load)
    unattributed = load.kinds.get(ActivityKind.UNATTRIBUTED, 0.0)
    return {
        "window_ms": load.window_ms,
        "total": round(load.total, 6),
        "carried": round(load.carried, 6),
        "corrections": round(load.corrections, 6),
        "unattributed_percent": round(100 * unattributed / load.total, 2) if load.total else 0.0,
        "kinds": {
            kind.value: round(load.kinds[kind], 6) for kind in ActivityKind if kind in load.kinds
        },
        "fragments": [
            {
                "fragment": fragment,
                "partition": partition,
                "load": round(load.of(fragment, partition), 6),
                "by_cause": {
                    key.cause.value: round(cores, 6)
                    for key, cores in sorted(load.by_key.items(), key=lambda i: i[0].cause.value)
                    if (key.fragment, key.partition) == (fragment, partition)
                },
                "marginal_cost": costs.get((fragment, partition)),
            }
            for fragment, partition in sorted({(k.fragment, k.partition) for k in load.by_key})
        ],
        "declared": None if declared is None else _declared(declared, load),
    }


def _declared(declared: DeclaredCost, load: Load) -> Mapping[str, Any]:
    return {
        "number": declared.number,
        "threshold": declared.threshold,
        "is_above": load.carried > declared.threshold,
        "currency": declared.currency,
        "marginal_cost": declared.cost.slope(load.carried),
    }
