"""`medusa contract export`: a stream's shape and promise as an Open Data Contract."""

from __future__ import annotations

import argparse
from pathlib import Path

from medusa_core.errors import Unavailable
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_contracts

HELP = "write a stream's shape and promise as an Open Data Contract (ODCS 3.1)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract export`."""
    parser.add_argument("stream", metavar="STREAM")
    output = "write it there, replacing the file (default: print it)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=output)
    price = "with the price of this content contract (default: of the only one that sells it)"
    parser.add_argument("--contract", metavar="NAME", help=price)
    add_contracts(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the data contract of a stream, or write it to a file."""
    from pipelines.operations.contract_export import ExportRequest, export_contract

    stream, output = options.stream, options.output
    request = ExportRequest(contracts=options.contracts, stream=stream, contract=options.contract)
    text = export_contract(settings, request)
    if output is None:
        print(text, end="")
    else:
        _write(output, text)
        print(f"{stream}: written to {output}")
    return 0


def _write(path: Path, text: str) -> None:
    from pipelines.base.files import write_atomically

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, durable=False)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written ({error.strerror}): name another file"
        ) from error
