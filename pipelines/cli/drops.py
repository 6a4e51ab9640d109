"""`medusa drops NETWORK`: the load equation of a network and the road map of its drops."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.cli.arguments import add_contracts, add_json, amount

if TYPE_CHECKING:
    from medusa_core.drops.road_map import DropPlan
    from pipelines.operations.drop_preview import DropPreview

HELP = "show which records of a network an overload would drop, and what that costs"
RATE = 1_000.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa drops`."""
    parser.add_argument("network", metavar="NETWORK", help="a shipped network or a network file")
    capacity = "seconds of CPU per second that there are (default: 1), or that a home has"
    parser.add_argument(
        "--capacity", type=_rate, action="append", default=[], metavar="[HOME=]LOAD", help=capacity
    )
    rate = f"records per second of each source, or of one (default: {RATE:g})"
    parser.add_argument(
        "--rate", type=_rate, action="append", default=[], metavar="[SOURCE=]N", help=rate
    )
    add_contracts(parser)
    add_json(parser)


def _rate(text: str) -> tuple[str | None, float]:
    name, _, number = text.rpartition("=")
    return name or None, amount(number)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the load equation, the road map and the plan for the capacity."""
    from pipelines.operations.drop_preview import preview_drops

    rates, capacities = {None: RATE, **dict(options.rate)}, dict(options.capacity)
    of_homes = {home: load for home, load in capacities.items() if home is not None}
    if of_homes:
        return _run_homes(options, rates, of_homes)
    found = preview_drops(options.network, rates, capacities.get(None, 1.0), options.contracts)
    print(json.dumps(_document(found), indent=1) if options.json else _text(found))
    return 0


def _run_homes(
    options: argparse.Namespace, rates: dict[str | None, float], capacities: dict[str, float]
) -> int:
    """Print one plan for several homes."""
    from pipelines.operations.drop_preview import preview_homes

    found, plan, home_of = preview_homes(options.network, rates, capacities, options.contracts)
    before: dict[str, float] = dict.fromkeys(plan.loads, 0.0)
    for box, load in found.network.loads.items():
        before[home_of[box]] += load
    if options.json:
        homes = {
            home: {"load": before[home], "capacity": capacities.get(home), "load_after": after}
            for home, after in plan.loads.items()
        }
        document = {"homes": homes, "shares": dict(plan.shares), "utility_lost": plan.lost}
        print(json.dumps(document, indent=1))
        return 0
    rows = [
        (home, f"{before[home]:.4f}", capacities.get(home, "any"), f"{after:.4f}")
        for home, after in sorted(plan.loads.items())
    ]
    print(table(("home", "load", "capacity", "load with drops"), rows))
    kept = ", ".join(f"{name} {share:.0%}" for name, share in plan.shares.items())
    print(f"\nkept: {kept}; utility lost: {plan.lost:.3f}")
    return 0


def _text(found: DropPreview) -> str:
    network = found.network
    boxes = [
        (
            box.name,
            f"{box.record_us:.2f} us",
            f"{box.selectivity:g}",
            f"{network.loads[box.name]:.4f}",
            ", ".join(sorted(network.behind[box.name])),
        )
        for box in network.boxes
    ]
    fits = network.load <= found.load_max
    verdict = "it fits" if fits else f"plan {found.chosen.number} is in force"
    if not fits and found.chosen.load > found.load_max:
        verdict = "no plan is enough"
    parts = [
        table(("box", "a record", "rows", "load", "for"), boxes),
        f"load {network.load:.4f} of {found.load_max:.4f} (0.95 of the capacity): {verdict}",
        table(
            ("plan", "load", "utility lost", "kept", "drops"),
            [_row(plan) for plan in _shown(found)],
        ),
    ]
    if found.unknown:
        parts.append(f"not counted, since it calls functions: {', '.join(found.unknown)}")
    return "\n\n".join(parts)


def _shown(found: DropPreview) -> list[DropPlan]:
    """The plans up to the one in force, and that one; all if the load fits."""
    if found.chosen.number == 0:
        return list(found.plans)
    return [plan for plan in found.plans if plan.number < found.chosen.number] + [found.chosen]


def _row(plan: DropPlan) -> tuple[object, ...]:
    shares = set(plan.shares.values())
    kept = ", ".join(f"{name} {share:.0%}" for name, share in plan.shares.items() if share < 1)
    if len(shares) == 1:
        kept = f"{shares.pop():.0%} of all"
    drops = ", ".join(map(str, plan.locations)) or "nothing"
    return plan.number, f"{plan.load:.4f}", f"{plan.lost:.3f}", kept, drops


def _document(found: DropPreview) -> dict[str, Any]:
    return {
        "load": found.network.load,
        "load_max": found.load_max,
        "loads": dict(found.network.loads),
        "chosen": _plan(found.chosen),
        "plans": [_plan(plan) for plan in found.plans],
        "unknown": list(found.unknown),
    }


def _plan(plan: DropPlan) -> dict[str, Any]:
    return {
        "number": plan.number,
        "load": plan.load,
        "utility_lost": plan.lost,
        "shares": dict(plan.shares),
        "drops": [
            {"source": its.source, "box": its.box, "rate": its.rate} for its in plan.locations
        ],
    }
