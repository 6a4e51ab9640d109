"""`medusa apply`: apply the contracts to the catalogs of the homes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.operations.contract_application import ApplyEvent, ApplyResult

HELP = "apply the contracts to the catalogs of the homes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa apply`."""
    contracts = "participants/*.yaml and streams/*.yaml are read there (default: contracts)"
    parser.add_argument(
        "--contracts", type=Path, default=Path("contracts"), metavar="DIR", help=contracts
    )
    parser.add_argument("--participant", metavar="P", help="only this one's home (default: all)")
    begins = "at which bucket the new plan of a changed network begins: ISO 8601, or now"
    parser.add_argument("--from", dest="from_", metavar="BUCKET", help=begins)
    homes = "only make the homes: before partners join whose streams the networks read"
    parser.add_argument("--homes", action="store_true", help=homes)
    parser.add_argument("--explain", action="store_true", help="print the plan, change nothing")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the plan, and apply it unless --explain is given."""
    from pipelines.operations.contract_application import (
        ApplyRequest,
        apply_contracts,
        beginning_of,
        document,
    )

    request = ApplyRequest(
        contracts=options.contracts,
        participant=options.participant,
        begins=beginning_of(options.from_),
        explain=options.explain,
        only_homes=options.homes,
    )
    result = apply_contracts(settings, request, _print_problem if options.json else _print)
    if options.json:
        print(json.dumps(document(result), indent=1))
    elif options.explain and not result.is_same:
        print("nothing was changed: leave --explain out to apply it")
    return 0


def _print(event: ApplyEvent) -> None:
    from pipelines.operations.contract_application import HomeApplied, PartnerProblem, PlanMade

    match event:
        case PlanMade(plan=plan):
            print(render_plan(plan), flush=True)
        case HomeApplied(participant=participant):
            print(f"{participant}: applied", flush=True)
        case PartnerProblem(sentence=sentence):
            print(sentence, file=sys.stderr)
        case _:
            assert_never(event)


def _print_problem(event: ApplyEvent) -> None:
    from pipelines.operations.contract_application import PartnerProblem

    if isinstance(event, PartnerProblem):
        _print(event)


def render_plan(plan: ApplyResult) -> str:
    """The plan for people: a line for each change, then the notes."""
    from pipelines.contracts.comparison_rows import Mark

    rows = [
        (change.mark.value, home.participant, change.what, change.name, change.detail)
        for home in plan.homes
        for change in plan.changes_of(home)
    ]
    counts = {mark: sum(row[0] == mark.value for row in rows) for mark in Mark}
    summary = (
        f"{counts[Mark.NEW]} new, {counts[Mark.CHANGED]} changed, {counts[Mark.SAME]} unchanged"
    )
    if counts[Mark.LEFT]:
        summary += f", {counts[Mark.LEFT]} left alone"
    changes = table(("", "home", "what", "name", "how"), rows)
    return "\n".join((f"{changes}\n\n{summary}", *plan.notes))
