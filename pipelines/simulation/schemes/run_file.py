"""The finished parts of a long run, in a file: by name, each with its result.

The file is replaced by a rename after every part, so that a run stopped anywhere continues from
there. A part is done again if the code has changed since: figures of different code are not
mixed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medusa_core.errors import WRONG_FORM, Conflict, Refused, Unavailable
from pipelines.base.files import FileLock, write_atomically

FORMAT = "medusa.market-simulation/1"


@dataclass(slots=True)
class FinishedParts:
    """The parts that are done, by name. `path` None keeps them in memory alone."""

    path: Path | None
    names: Sequence[str]
    code: str
    done: dict[str, Any] = field(default_factory=dict)

    def add(self, key: str, given: Any) -> None:
        """A part is done; raises Unavailable if it cannot be kept."""
        self.done[key] = given
        if self.path is None:
            return
        document = {"format": FORMAT, "code": self.code, "parts": self.names, "done": self.done}
        try:
            write_atomically(self.path, json.dumps(document) + "\n", durable=False)
        except OSError as error:
            raise Unavailable(
                f"{self.path} cannot be written ({error.strerror}): make room, then continue "
                "with it"
            ) from error


@contextmanager
def kept_in(path: Path | None, names: Sequence[str], code: str) -> Iterator[FinishedParts]:
    """What a file holds of a run that asks for these parts, or nothing yet; held alone.

    Refused if the file is none of this simulator's or of a run with other parts; Conflict
    while another run uses it.
    """
    if path is None:
        yield FinishedParts(None, names, code)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f"{path.name}.lock"))
    except BlockingIOError as error:
        raise Conflict(f"another run uses {path}: wait for it") from error
    except OSError as error:
        raise Refused(f"{path} cannot be written ({error.strerror}): choose another") from error
    with lock:
        yield _read(path, names, code)


def _read(path: Path, names: Sequence[str], code: str) -> FinishedParts:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found, keys, done = document["code"], document["parts"], document["done"]
        if document["format"] != FORMAT or not set(done) <= set(keys):
            raise ValueError
        if not all(isinstance(given, dict) for given in done.values()):
            raise ValueError
    except FileNotFoundError:
        return FinishedParts(path, names, code)
    except (OSError, *WRONG_FORM) as error:
        raise Refused(
            f"{path} is not what a run of the market keeps: choose another file, or remove it"
        ) from error
    if keys != list(names):
        first = str(keys[0])[:200] if keys else "none"
        raise Refused(
            f"{path} is of a run with other arguments ({len(keys)} parts, the first: {first}): "
            "continue with the same, or choose another file"
        )
    return FinishedParts(path, names, code, dict(done) if found == code else {})
