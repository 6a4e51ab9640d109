"""`medusa generate`: connections for netmon, the same for the same seed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipelines.base.settings import Settings
from pipelines.cli.arguments import positive


def generate(directory: Path, *, seed: int, records: int, files: int, format_: str) -> int:
    """Write the files and print their paths."""
    from pipelines.sources.generated_files import write_generated

    for path in write_generated(directory, seed=seed, records=records, files=files, format=format_):
        print(path)
    return 0


HELP = "write generated connections for netmon"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa generate`."""
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--records", type=positive, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=positive, default=1)
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Write the files and print their paths."""
    return generate(
        options.directory,
        seed=options.seed,
        records=options.records,
        files=options.files,
        format_=options.format,
    )
