"""`medusa generate`: connections for netmon, the same for the same seed."""

from __future__ import annotations

from pathlib import Path

from pipelines.sources.generated_files import write_generated


def generate(directory: Path, *, seed: int, records: int, files: int, format_: str) -> int:
    """Write the files and print their paths."""
    for path in write_generated(directory, seed=seed, records=records, files=files, format=format_):
        print(path)
    return 0
