"""`medusa generate`: connections for netmon, the same ones for the same seed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipelines.base.settings import Settings
from pipelines.cli.arguments import positive

HELP = "write made-up connections for netmon, from a seed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa generate`."""
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--records", type=positive, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=positive, default=1)
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Write the files and print their paths."""
    from pipelines.sources.generated_files import write_generated

    paths = write_generated(
        options.directory,
        seed=options.seed,
        records=options.records,
        files=options.files,
        format=options.format,
    )
    for path in paths:
        print(path)
    return 0
