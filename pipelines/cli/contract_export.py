"""`medusa contract export`: a stream's shape and promise as an Open Data Contract."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.market.terms import Terms
from medusa_core.names import StreamName
from medusa_core.suggest import did_you_mean
from pipelines.base.files import write_atomically
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_contracts


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
    from pipelines.contracts.data_contract import data_contract_of, sellers_of, streams_described
    from pipelines.contracts.data_contract_text import data_contract_text
    from pipelines.contracts.federation import read_federation
    from pipelines.market.contracts.bilateral import read_bilateral

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
    from pipelines.contracts.fields import listing

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


HELP = "write a stream's shape and promise as an Open Data Contract (ODCS 3.1)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract export`."""
    parser.add_argument("stream", metavar="STREAM", help="which")
    output = "write it there, replacing what is there (default: print it)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=output)
    price = "with the price of this content contract (default: of the only one that sells it)"
    parser.add_argument("--contract", metavar="NAME", help=price)
    add_contracts(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the data contract of a stream, or write it to a file."""
    return export_contract(
        settings,
        options.contracts,
        options.stream,
        contract=options.contract,
        output=options.output,
    )
