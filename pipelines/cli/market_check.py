"""`medusa market check`: is load where it should be, and is it what was stated?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.operations.market_check import MarketCheck

HELP = "check that nobody is overloaded while another one has room, and that stated load is right"
HEADING = ("participant", "load", "threshold", "room", "marginal cost", "given", "taken")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa market check`."""
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print what each home decides by; 1 unless the allocation is acceptable."""
    from dataclasses import asdict

    from pipelines.operations.market_check import check_market

    found = check_market(settings)
    print(json.dumps(asdict(found), indent=1) if options.json else render(found))
    return 0 if found.allocation.is_acceptable else 1


def render(found: MarketCheck) -> str:
    """The table, the verdict, and what is stated wrongly."""
    rows = [
        (
            one.participant, f"{one.load:.3f}", f"{one.threshold:.3f}",
            f"{max(one.threshold - one.load, 0.0):.3f}",
            f"{one.marginal_cost:.4g} {one.currency}", f"{one.given:.3f}", f"{one.taken:.3f}",
        )
        for one in found.traders
    ]  # fmt: skip
    lines = [table(HEADING, rows)]
    if found.allocation.is_acceptable:
        lines.append("the allocation of load is acceptable")
    else:
        lines.append(
            "the allocation of load is not acceptable: one is over its threshold while another one "
            f"has room for {found.allocation.within:.3f}"
        )
    lines += [
        f"{one.provider} meters {one.metered:.3f} of {one.fragment} under {one.contract}: "
        f"{one.stated:.3f} were stated"
        for one in found.misstated
    ]
    lines += [f"{name} has not declared what load costs: left out" for name in found.undeclared]
    return "\n".join(lines)
