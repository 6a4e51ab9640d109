"""`medusa contract check`: the bilateral contracts of a folder, or every error in them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_contracts, add_json

if TYPE_CHECKING:
    from medusa_core.market.terms import Terms
    from pipelines.market.contracts.bilateral import BilateralContract
    from pipelines.market.contracts.bilateral_findings import Finding
    from pipelines.operations.bilateral_check import BilateralCheck

HELP = "check bilateral contracts and print their prices"
FINDINGS_SHOWN_MAX = 100
REVISION_SHOWN = 12
COLUMNS = ("contract", "kind", "payer -> provider", "price", "valid", "revision")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract check`."""
    add_contracts(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print one line for each contract; 2 with every error if anything is wrong."""
    from pipelines.operations.bilateral_check import check_bilateral

    check = check_bilateral(settings, options.contracts)
    if options.json:
        print(json.dumps(document(check), indent=1))
    elif check.findings:
        _print_findings(check.findings)
    else:
        print(render(check, options.contracts))
    return Refused.exit_code if check.findings else 0


def price_of(terms: Terms) -> str:
    """What a contract costs, in words."""
    from medusa_core.market.terms import Content, Movement, Suggested, plain

    match terms.subject:
        case Movement(price=price):
            unit = f"{terms.currency} a core and hour"
            if price.top == 0:
                return f"{plain(price.low)} {unit}"
            return f"{plain(price.low)} to {plain(price.high)} by {plain(price.step)} {unit}"
        case Content() as content:
            per = content.per.value
            return f"{plain(content.price)} {terms.currency} a {per} of {content.stream}"
        case Suggested() as suggested:
            return f"buy {suggested.stream} from {suggested.instead}"


def document(check: BilateralCheck) -> Mapping[str, Any]:
    """The result for JSON."""
    from medusa_core.market.documents import fields_of, revision_of

    return {
        "contracts": [
            {
                "file": contract.at.file,
                "revision": revision_of(contract.terms),
                "price": price_of(contract.terms),
                "terms": fields_of(contract.terms),
            }
            for contract in check.contracts
        ],
        "errors": [
            {"file": f.file, "line": f.line, "field": f.field, "says": f.sentence}
            for f in check.findings
        ],
    }


def render(check: BilateralCheck, directory: Path) -> str:
    """Valid contracts for a terminal."""
    if not check.contracts:
        return f"{directory}/bilateral holds no contract"
    count = counted(len(check.contracts), "contract")
    return f"{table(COLUMNS, map(_row, check.contracts))}\n\n{count}: no errors"


def _row(contract: BilateralContract) -> tuple[str, ...]:
    from medusa_core.market.documents import revision_of

    terms = contract.terms
    begins, ends = iso(terms.valid_from_ms * 1_000), iso(terms.valid_until_ms * 1_000)
    return (
        terms.contract,
        terms.kind.value,
        f"{terms.payer} -> {terms.provider}",
        price_of(terms),
        f"{begins} to {ends}",
        revision_of(terms)[:REVISION_SHOWN],
    )


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings[:FINDINGS_SHOWN_MAX]:
        print(f"medusa: {finding.sentence}", file=sys.stderr)
    more = len(findings) - FINDINGS_SHOWN_MAX
    if more > 0:
        print(f"medusa: and {more:,} more; correct these first", file=sys.stderr)
