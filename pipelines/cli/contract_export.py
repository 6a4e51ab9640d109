"""`medusa contract export`: a stream's shape and promise as an Open Data Contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.market.terms import Terms
from medusa_core.names import StreamName
from medusa_core.suggest import did_you_mean
from pipelines.base.files import write_atomically
from pipelines.base.settings import Settings
from pipelines.contracts.data_contract import data_contract_of, sellers_of, streams_described
from pipelines.contracts.data_contract_text import data_contract_text
from pipelines.contracts.federation import read_federation
from pipelines.contracts.fields import listing
from pipelines.market.contracts.bilateral import read_bilateral


def export_contract(
    settings: Settings,
    contracts: Path,
    stream: str,
    *,
    contract: str | None,
    output: Path | None,
) -> int:
    """Print the data contract of a stream, or write it to a file.

    Raises Refused for an unknown stream or contract, and Unavailable if it cannot be written.
    """
    federation = read_federation(contracts, settings.directory)
    described = streams_described(federation)
    name = StreamName(stream)
    if name not in described:
        hint = did_you_mean(stream, described, f"there is {', '.join(described)}")
        raise Refused(f"no network in {contracts} has a stream {stream!r}: {hint}")
    agreed = [one.terms for one in read_bilateral(contracts, federation.participants)]
    sold = _sold(name, sellers_of(name, agreed), contract)
    text = data_contract_text(data_contract_of(replace(described[name], sold=sold)))
    if output is None:
        print(text, end="")
    else:
        _write(output, text)
        print(f"{stream}: written to {output}")
    return 0


def _sold(stream: StreamName, sold: tuple[Terms, ...], wanted: str | None) -> Terms | None:
    """The contract whose price is told: the one that is named, or the only one."""
    names = [terms.contract for terms in sold]
    if wanted is not None:
        for terms in sold:
            if terms.contract == wanted:
                return terms
        there = f"there is {', '.join(names)}" if names else "leave --contract out"
        hint = did_you_mean(wanted, names, there)
        raise Refused(f"no contract {wanted!r} sells stream {stream}: {hint}")
    if len(sold) > 1:
        raise Refused(
            f"stream {stream} is sold under {listing(names)}: say with --contract whose price is "
            "to be written"
        )
    return sold[0] if sold else None


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, durable=False)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written ({error.strerror}): name another file"
        ) from error
