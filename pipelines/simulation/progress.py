"""The progress of a long run, in a file: the finished seeds, and the sums over them.

The file is replaced by a rename after each part, so that a run that is stopped or killed anywhere
continues from the last part. Schedules are recorded with the code that ran them: those that ran
under other code stay done, and the run reports that at its end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from medusa_core.errors import WRONG_FORM, Conflict, Refused, Unavailable
from pipelines.base.files import FileLock, write_atomically
from pipelines.base.settings import REPOSITORY
from pipelines.simulation.faults.run_figures import COUNTERS, RunFigures
from pipelines.simulation.faults.schedule_shapes import (
    MARKETS,
    MIXED,
    MOVES,
    OVERLOADS,
    REPLICAS,
    REVISIONS,
    TRIMS,
    WHOLE,
    Shape,
)

SHAPES = {
    "whole": WHOLE,
    "trims": TRIMS,
    "replicas": REPLICAS,
    "revisions": REVISIONS,
    "moves": MOVES,
    "markets": MARKETS,
    "overloads": OVERLOADS,
    "mixed": MIXED,
}
OPTIONS = {
    TRIMS: " with --trims",
    REPLICAS: " with --replicas",
    REVISIONS: " with --revisions",
    MOVES: " with --moves",
    MARKETS: " with --markets",
    OVERLOADS: " with --overloads",
    WHOLE: " without replicas",
}
"""The options of a run of a shape; MIXED is the default."""
CODE = ("medusa_core", "pipelines")


@dataclass(slots=True)
class Progress:
    """The seeds that are done, as ranges in order, their figures, and schedules by code."""

    path: Path
    figures: RunFigures
    done: list[tuple[int, int]] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)

    def is_done(self, seed: int) -> bool:
        """Whether the schedule of a seed was run."""
        return any(first <= seed < end for first, end in self.done)

    def add(self, first: int, part: RunFigures, code: str) -> None:
        """A part from seed `first` on is done; raises Unavailable if it cannot be kept."""
        self.figures.merge(part)
        self.codes[code] += part.schedules
        self.done = _joined([*self.done, (first, first + part.schedules)])
        try:
            write_atomically(self.path, json.dumps(self._document()) + "\n", durable=False)
        except OSError as error:
            raise Unavailable(
                f"{self.path} cannot be written ({error.strerror}): make room, then continue "
                "with it"
            ) from error

    def _document(self) -> Mapping[str, Any]:
        figures = self.figures
        return {
            "first_seed": figures.first_seed,
            "shape": next(name for name, shape in SHAPES.items() if shape == figures.shape),
            "done": self.done,
            "codes": self.codes,
            "schedules": figures.schedules,
            "interleavings": figures.interleavings,
            "ticks_most": figures.ticks_most,
            "rounds_most": figures.rounds_most,
            "violations": figures.violations,
            "shortfalls": figures.shortfalls,
            "counters": {
                name: [[key, n] for key, n in sorted(getattr(figures, name).items())]
                for name in COUNTERS
            },
        }


@contextmanager
def progress_in(path: Path, first_seed: int, shape: Shape) -> Iterator[Progress]:
    """The progress that a file holds, or that of a run that has not begun; held alone.

    Refused if the file is none of the simulator's or that of another run; Conflict while another
    run goes on with it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f"{path.name}.lock"))
    except BlockingIOError as error:
        raise Conflict(f"another run uses {path}: wait for it") from error
    except OSError as error:
        raise Refused(f"{path} cannot be written ({error.strerror}): choose another") from error
    with lock:
        yield _read(path, first_seed, shape)


def _read(path: Path, first_seed: int, shape: Shape) -> Progress:
    fresh = Progress(path, RunFigures(first_seed=first_seed, shape=shape))
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = _progress_of(path, document)
    except FileNotFoundError:
        return fresh
    except (OSError, *WRONG_FORM) as error:
        raise Refused(
            f"{path} is not what a run of the simulator keeps: choose another file, or remove it"
        ) from error
    if (found.figures.first_seed, found.figures.shape) != (first_seed, shape):
        raise Refused(
            f"{path} is of a run from seed {found.figures.first_seed}"
            f"{OPTIONS.get(found.figures.shape, '')}: continue with the same, or "
            "choose another file"
        )
    return found


def _progress_of(path: Path, document: Mapping[str, Any]) -> Progress:
    figures = RunFigures(
        first_seed=_number(document["first_seed"]),
        shape=SHAPES[document["shape"]],
        schedules=_number(document["schedules"]),
        interleavings=_number(document["interleavings"]),
        ticks_most=_number(document["ticks_most"]),
        rounds_most=_number(document["rounds_most"]),
        violations=[(_number(seed), _text(sentence)) for seed, sentence in document["violations"]],
        shortfalls=[_text(sentence) for sentence in document["shortfalls"]],
    )
    for name in COUNTERS:
        counter = getattr(figures, name)
        for key, n in document["counters"][name]:
            counter[tuple(map(_text, key)) if isinstance(key, list) else _text(key)] = _number(n)
    done = [(_number(first), _number(end)) for first, end in document["done"]]
    codes = Counter({_text(code): _number(n) for code, n in document["codes"].items()})
    if done != _joined(done) or sum(end - first for first, end in done) != figures.schedules:
        raise ValueError("ranges")
    return Progress(path, figures, done, codes)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(value)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    return joined


def code_fingerprint() -> str:
    """The hash of the code that schedules run."""
    found = sha256()
    for folder in CODE:
        for file in sorted((REPOSITORY / folder).rglob("*.py")):
            found.update(file.relative_to(REPOSITORY).as_posix().encode() + b"\0")
            found.update(file.read_bytes() + b"\0")
    return found.hexdigest()[:16]
