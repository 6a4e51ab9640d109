"""The data contract of a stream: its shape, its promise and its price, as ODCS text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.market.terms import Terms
from medusa_core.names import StreamName
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.contracts.data_contract import data_contract_of, sellers_of, streams_described
from pipelines.contracts.data_contract_text import data_contract_text
from pipelines.contracts.federation import read_federation
from pipelines.contracts.fields import listing
from pipelines.market.contracts.bilateral import read_bilateral


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """A stream of a contracts folder; `contract`: whose price is written, None for the only one."""

    contracts: Path
    stream: str
    contract: str | None = None


def export_contract(settings: Settings, request: ExportRequest) -> str:
    """The text of the data contract. Refused for an unknown stream or contract."""
    federation = read_federation(request.contracts, settings.directory)
    described = streams_described(federation)
    name = StreamName(request.stream)
    if name not in described:
        hint = did_you_mean(name, described, f"there is {', '.join(described)}")
        raise Refused(f"no network in {request.contracts} has a stream {str(name)!r}: {hint}")
    agreed = [one.terms for one in read_bilateral(request.contracts, federation.participants)]
    sold = _sold(name, sellers_of(name, agreed), request.contract)
    return data_contract_text(data_contract_of(replace(described[name], sold=sold)))


def _sold(stream: StreamName, sold: tuple[Terms, ...], chosen: str | None) -> Terms | None:
    """The contract whose price is exported: the named one, or the only one."""
    names = [terms.contract for terms in sold]
    if chosen is not None:
        for terms in sold:
            if terms.contract == chosen:
                return terms
        there = f"there is {', '.join(names)}" if names else "leave --contract out"
        hint = did_you_mean(chosen, names, there)
        raise Refused(f"no contract {chosen!r} sells stream {stream}: {hint}")
    if len(sold) > 1:
        raise Refused(
            f"stream {stream} is sold under {listing(names)}: say with --contract whose price is "
            "to be written"
        )
    return sold[0] if sold else None
