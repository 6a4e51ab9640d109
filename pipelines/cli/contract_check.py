"""`medusa contract check`: what each bilateral contract says, or all that is wrong with them.

Once nothing is, the rest of the folder is looked at as `medusa apply` would.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.market.documents import fields_of, revision_of
from medusa_core.market.terms import Content, Movement, Suggested, Terms, plain
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted, iso
from pipelines.cli.arguments import add_contracts, add_json

if TYPE_CHECKING:
    from pipelines.contracts.participants import ParticipantContract
    from pipelines.market.contracts.bilateral import BilateralContract, Examined
    from pipelines.market.contracts.bilateral_findings import Finding

FINDINGS_SHOWN_MAX = 100
REVISION_SHOWN = 12
COLUMNS = ("contract", "kind", "payer -> provider", "price", "valid", "revision")


def check_contracts(settings: Settings, directory: Path, *, as_json: bool) -> int:
    """Print one line for each contract; 2 with every error if anything is wrong."""
    from pipelines.contracts.folder import check_folder
    from pipelines.market.contracts.bilateral import examine_bilateral

    check_folder(directory)
    participants, findings = _participants(directory)
    examined = examine_bilateral(directory, participants)
    wrong = (*findings, *examined.findings) or _elsewhere(settings, directory)
    if as_json:
        print(json.dumps(_document(examined, wrong), indent=1))
    elif wrong:
        _tell(wrong)
    else:
        _show(examined, directory)
    return Refused.exit_code if wrong else 0


def price_of(terms: Terms) -> str:
    """What a contract costs, in words."""
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


def _participants(
    directory: Path,
) -> tuple[tuple[ParticipantContract, ...] | None, tuple[Finding, ...]]:
    from pipelines.contracts.participants import read_participants
    from pipelines.market.contracts.bilateral_findings import Finding

    try:
        return read_participants(directory), ()
    except Refused as error:
        return None, (Finding(sentence=str(error), file=str(directory / "participants")),)


def _elsewhere(settings: Settings, directory: Path) -> tuple[Finding, ...]:
    """What is wrong with the participants and streams together: the first thing."""
    from pipelines.contracts.federation import read_federation
    from pipelines.market.contracts.bilateral_findings import Finding

    try:
        read_federation(directory, settings.directory)
    except Refused as error:
        return (Finding(sentence=str(error), file=str(directory)),)
    return ()


def _show(examined: Examined, directory: Path) -> None:
    if not examined.contracts:
        print(f"{directory}/bilateral holds no contract")
        return
    print(table(COLUMNS, map(_row, examined.contracts)))
    print(f"\n{counted(len(examined.contracts), 'contract')}: nothing is wrong with them")


def _row(contract: BilateralContract) -> tuple[str, ...]:
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


def _tell(findings: tuple[Finding, ...]) -> None:
    for finding in findings[:FINDINGS_SHOWN_MAX]:
        print(f"medusa: {finding.sentence}", file=sys.stderr)
    more = len(findings) - FINDINGS_SHOWN_MAX
    if more > 0:
        print(f"medusa: and {more:,} more; correct these first", file=sys.stderr)


def _document(examined: Examined, findings: tuple[Finding, ...]) -> Mapping[str, Any]:
    return {
        "contracts": [
            {
                "file": contract.at.file,
                "revision": revision_of(contract.terms),
                "price": price_of(contract.terms),
                "terms": fields_of(contract.terms),
            }
            for contract in examined.contracts
        ],
        "errors": [
            {"file": f.file, "line": f.line, "field": f.field, "says": f.sentence} for f in findings
        ],
    }


HELP = "check bilateral contracts, and print what each says"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract check`."""
    add_contracts(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Check the contracts of a folder."""
    return check_contracts(settings, options.contracts, as_json=options.json)
