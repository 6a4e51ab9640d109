"""Bilateral contracts: the files of contracts/bilateral, checked alone and against each other.

A file makes the terms of a contract's first revision; later agreed revisions are stored in the
homes. The number and size of the files that are read are bounded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.market.contract_files import terms_of_file
from medusa_core.market.term_rules import InvalidTerms
from medusa_core.market.terms import Terms
from pipelines.contracts.folder import SUFFIX, check_inside
from pipelines.contracts.participants import ParticipantContract
from pipelines.contracts.yaml_values import Value, read_yaml
from pipelines.market.contracts.bilateral_across import check_across
from pipelines.market.contracts.bilateral_contract import BilateralContract
from pipelines.market.contracts.bilateral_findings import Finding, finding_at, refuse_all

__all__ = [
    "BilateralContract",
    "Examined",
    "examine_bilateral",
    "read_bilateral",
    "read_bilateral_file",
]

FOLDER = "bilateral"
FILES_MAX = 2_000
SIZE_BYTES_MAX = 4 * 1024 * 1024
FINDINGS_MAX = 20
"""Findings in one file; one with more of them is something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The contracts that could be read, by name, and all that is wrong, by file and line."""

    contracts: tuple[BilateralContract, ...]
    findings: tuple[Finding, ...]


def read_bilateral(
    directory: Path, participants: Sequence[ParticipantContract]
) -> tuple[BilateralContract, ...]:
    """All bilateral contracts of a contracts folder, by name; none if it has no folder bilateral.

    Raises Refused, naming file, line and field of the first thing that is wrong.
    """
    examined = examine_bilateral(directory, participants)
    refuse_all(examined.findings)
    return examined.contracts


def examine_bilateral(
    directory: Path, participants: Sequence[ParticipantContract] | None
) -> Examined:
    """As `read_bilateral`, but with all that is wrong instead of raising.

    Without `participants`, what speaks of them is not looked at. Raises Refused only if the folder
    as a whole cannot be read.
    """
    contracts: list[BilateralContract] = []
    paths, findings = _paths(directory)
    for path in paths:
        try:
            check_inside(directory, path, f"{path}")
            document = read_yaml(path, str(path))
        except Refused as error:
            findings.append(Finding(sentence=str(error), file=str(path)))
            continue
        read, wrong = _contract(document, path)
        findings += wrong
        if read is not None:
            contracts.append(read)
    findings += check_across(contracts, participants)
    return Examined(
        contracts=tuple(contracts),
        findings=tuple(sorted(findings, key=lambda finding: finding.order)),
    )


def read_bilateral_file(path: Path) -> BilateralContract:
    """One bilateral contract's file, alone: what others say is not looked at.

    Raises Refused, naming file, line and field of the first thing that is wrong.
    """
    contract, findings = _contract(read_yaml(path, str(path)), path)
    refuse_all(findings)
    assert contract is not None, "what is not read has a finding"
    return contract


def _contract(document: Value, path: Path) -> tuple[BilateralContract | None, list[Finding]]:
    terms: Terms | None = None
    findings: list[Finding] = []
    try:
        terms = terms_of_file(as_written(document))
    except InvalidTerms as error:
        wrong = islice(error.findings, FINDINGS_MAX)
        findings = [finding_at(_value_at(document, one.path), one.says) for one in wrong]
    match document.content:
        case dict() as fields if "contract" in fields:
            at = fields["contract"]
            if isinstance(at.content, str) and at.content != path.stem:
                says = f"is {at.content}, but the file is {path.name}: make them the same"
                findings.append(finding_at(at, says))
        case _:
            return None, findings
    if terms is None or findings:
        return None, findings
    return BilateralContract(terms=terms, at=at, places=dict(_places(document))), []


def as_written(value: Value) -> object:
    """The value as JSON has it, its decimals with the digits that are written."""
    match value.content:
        case dict() as fields:
            return {name: as_written(inside) for name, inside in fields.items()}
        case tuple() as items:
            return [as_written(item) for item in items]
        case float():
            return Decimal(value.written or "")
        case scalar:
            return scalar


def _value_at(document: Value, path: Iterable[str | int]) -> Value:
    """The part of the file that a path leads to, or the nearest one around it that is written."""
    value = document
    for step in path:
        match value.content, step:
            case dict() as fields, str() if step in fields:
                value = fields[step]
            case tuple() as items, int():
                value = items[step]
            case _:
                break
    return value


def _places(value: Value) -> Iterator[tuple[str, Value]]:
    """Every value below this one with its path; a file nests few levels (NESTING_MAX)."""
    if value.field:
        yield value.field, value
    match value.content:
        case dict() as fields:
            for inside in fields.values():
                yield from _places(inside)
        case tuple() as items:
            for item in items:
                yield from _places(item)


def _paths(directory: Path) -> tuple[list[Path], list[Finding]]:
    """The contract files by name; Refused where there are too many, or they are too large."""
    folder = directory / FOLDER
    paths: list[Path] = []
    findings: list[Finding] = []
    size_bytes = 0
    for number, entry in enumerate(_entries(folder)):
        if number == FILES_MAX:
            raise Refused(
                f"{folder} holds more than {FILES_MAX:,} files: keep the contracts that are valid, "
                "and move the others elsewhere"
            )
        path = folder / entry.name
        if path.suffix in (".yml", ".YAML", ".YML") and not entry.name.startswith("."):
            says = f"{path} is not read: name it {path.stem}{SUFFIX}"
            findings.append(Finding(sentence=str(Refused(says)), file=str(path)))
        if path.suffix != SUFFIX or entry.name.startswith("."):
            continue
        paths.append(path)
        with suppress(OSError):  # what cannot be read is reported when it is read
            size_bytes += entry.stat().st_size
        if size_bytes > SIZE_BYTES_MAX:
            raise Refused(
                f"the contracts in {folder} are longer than {SIZE_BYTES_MAX // 1024**2} MiB "
                "together: keep those that are valid, and move the others elsewhere"
            )
    return sorted(paths), findings


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(f"{folder} cannot be read ({error.strerror}): check it") from None
