"""Check the bilateral contracts of a folder, and the rest of the folder if they are valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.contracts.federation import read_federation
from pipelines.contracts.folder import check_folder
from pipelines.contracts.participants import ParticipantContract, read_participants
from pipelines.market.contracts.bilateral import BilateralContract, examine_bilateral
from pipelines.market.contracts.bilateral_findings import Finding
from pipelines.market.contracts.sold_streams import check_promises


@dataclass(frozen=True, slots=True, kw_only=True)
class BilateralCheck:
    """The contracts of a folder that can be read, and everything that is wrong in the folder."""

    contracts: tuple[BilateralContract, ...]
    findings: tuple[Finding, ...]


def check_bilateral(settings: Settings, directory: Path) -> BilateralCheck:
    """Check every contract; Refused if there is no such folder.

    If they are valid, participants and streams are checked as `medusa apply` checks them.
    """
    check_folder(directory)
    participants, findings = _participants(directory)
    examined = examine_bilateral(directory, participants)
    wrong = (*findings, *examined.findings) or _elsewhere(settings, directory, examined.contracts)
    return BilateralCheck(contracts=tuple(examined.contracts), findings=wrong)


def _participants(
    directory: Path,
) -> tuple[tuple[ParticipantContract, ...] | None, tuple[Finding, ...]]:
    try:
        return read_participants(directory), ()
    except Refused as error:
        return None, (Finding(sentence=str(error), file=str(directory / "participants")),)


def _elsewhere(
    settings: Settings, directory: Path, contracts: Sequence[BilateralContract]
) -> tuple[Finding, ...]:
    """What is wrong with the participants and streams together, the first thing; then, what is
    promised of streams and not deployed."""
    try:
        federation = read_federation(directory, settings.directory)
    except Refused as error:
        return (Finding(sentence=str(error), file=str(directory)),)
    return tuple(check_promises(contracts, federation))
