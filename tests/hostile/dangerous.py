"""A process of its own that reads dangerous files, named as arguments, under a limit of memory.

Prints a JSON line for each: what landed and went aside, or the refusal, and the peak of resident
memory so far beyond what the imports took.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from medusa_core.errors import MedusaError
from pipelines.sources.recorded.reader import read_recorded_file
from tests.hostile.cases.dangerous import CASES
from tests.hostile.cases.shapes import FileCase

ADDRESS_SPACE_BYTES_MAX = 8 << 30
QUARANTINED_MAX = 10


def peak_bytes() -> int:
    """The greatest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def read(case: FileCase) -> dict[str, Any]:
    """What comes of a case."""
    landed, quarantined, refused = 0, [], None
    with tempfile.TemporaryDirectory() as folder:
        file = case.written(Path(folder))
        began_s = time.process_time()
        try:
            for chunk in read_recorded_file(case.source, file):
                landed += chunk.records.num_rows
                found = chunk.quarantined[:QUARANTINED_MAX]
                quarantined += [(record.position, record.field, record.reason) for record in found]
        except MedusaError as error:
            refused = str(error)
        took_s = time.process_time() - began_s
    told = {"name": case.name, "refused": refused, "landed": landed, "aside": quarantined}
    return {**told, "cpu_s": took_s}


def main() -> None:
    """Read those that are named, one by one."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES_MAX, ADDRESS_SPACE_BYTES_MAX))
    before = peak_bytes()
    names = set(sys.argv[1:])
    for case in [case for case in CASES if case.name in names]:
        print(json.dumps({**read(case), "peak_bytes": peak_bytes() - before}), flush=True)


if __name__ == "__main__":
    main()
