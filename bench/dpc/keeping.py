"""The finished measurements, in one JSON file that is replaced by a rename after every cell."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medusa_core.errors import Refused, Unavailable

FORMAT = 2
FAILED = "failed"


@dataclass(slots=True)
class Kept:
    """Figures by name, such as `depth-2-process/F=3X`; a cell that failed has a sentence instead.

    What failed is not done: the next run tries it again.
    """

    path: Path
    machine: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, Any] = field(default_factory=dict)

    def is_done(self, name: str) -> bool:
        """Whether a cell was measured."""
        return name in self.cells and FAILED not in self.cells[name]

    def forget(self, names: Sequence[str]) -> None:
        """Leave out the cells of federations (or of `simulated`), to be measured again."""
        gone = tuple(f"{name}/" for name in names)
        self.cells = {name: cell for name, cell in self.cells.items() if not name.startswith(gone)}

    def add(self, name: str, document: Mapping[str, Any]) -> None:
        """A cell is done, or has failed; raises Unavailable if that cannot be written down."""
        self.cells[name] = dict(document)
        temporary = self.path.with_name(f"{self.path.name}.new")
        whole = {"format": FORMAT, "machine": self.machine, "cells": self.cells}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(whole, indent=1) + "\n")
            os.replace(temporary, self.path)
        except OSError as error:
            raise Unavailable(
                f"{self.path} cannot be written ({error.strerror}): make room, then continue "
                "with it"
            ) from error


def opened(path: Path, machine: Mapping[str, Any], *, again: bool) -> Kept:
    """What the file holds, nothing if there is none or all is to be measured again.

    Raises Refused if it is not as it was written.
    """
    if again or not path.exists():
        return Kept(path, machine=dict(machine))
    try:
        document = json.loads(path.read_text())
        if document["format"] != FORMAT:
            raise ValueError("format")
        cells = {str(name): dict(cell) for name, cell in document["cells"].items()}
        return Kept(path, machine=dict(document["machine"]), cells=cells)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise Refused(
            f"{path} is not as an earlier run wrote it: name another with --json, or start again "
            "with --again"
        ) from error
