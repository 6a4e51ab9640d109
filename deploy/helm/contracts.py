"""Print a folder of contracts as values of the chart: `contracts.py FOLDER > contracts.yaml`."""

import json
import sys
from pathlib import Path

SIZE_MAX = 900_000
"""Bytes: a ConfigMap holds 1 MiB."""


def main() -> int:
    """The exit code; JSON is YAML, too."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("name the folder of contracts: contracts.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    files = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    if sum(len(text.encode()) for text in files.values()) > SIZE_MAX:
        print("the contracts are too long for a ConfigMap: put the folder on a volume and name its "
              "claim as contracts.existingClaim", file=sys.stderr)  # fmt: skip
        return 1
    print(json.dumps({"contracts": {"files": files}}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
