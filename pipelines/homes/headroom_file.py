"""The headroom of bounds, kept next to the log for `medusa status` and the pages.

Only the driver knows the cost of its loop around its steps, so it writes its estimates to
`MEDUSA_DIR/logs/<participant>.headroom.json`, at most every second, with the load of its machine.
Nothing depends on the file: a failed write has no effect, and an unreadable or old file means
that the headroom is unknown. Clocks are this machine's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from medusa_core.bound_headroom import Headroom, headrooms
from medusa_core.errors import WRONG_FORM
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.files import write_atomically
from pipelines.base.foreign_documents import is_number
from pipelines.base.time_text import duration
from pipelines.homes.deployed_fragments import costed_knowledge
from pipelines.homes.home import Home

WRITE_AFTER_S = 1.0
OLD_AFTER_S = 30.0
"""A driver that is at work writes every second; one step may take some."""

Fact = Mapping[str, Any]


class HeadroomFile:
    """The file of one participant's driver, or of one of its workers; not safe for threads: its
    owner holds a lock."""

    def __init__(
        self, directory: Path, participant: Participant, worker: str | None = None
    ) -> None:
        self._path = _path(directory, participant, worker)
        self._written_at_s = 0.0

    def write(self, headrooms: Sequence[Headroom], now_s: float) -> None:
        """Write what is known now, unless it was just written."""
        if 0 <= now_s - self._written_at_s < WRITE_AFTER_S:
            return
        self._written_at_s = now_s
        document = {"written_at_s": now_s, "bounds": [fact_of(found) for found in headrooms]}
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps(document), durable=False)


def fact_of(found: Headroom, *, is_here: bool = True) -> Fact:
    """A headroom as JSON values; with the load of this machine, if the steps are made here."""
    return {
        "fragment": found.fragment,
        "streams": list(found.streams),
        "bound_ms": found.bound_ms,
        "step_ms": found.cost.answer_step_ms,
        "around_ms": found.cost.wake_ms + found.cost.blocked_ms,
        "gather_ms": found.cost.gather_ms,
        "rest_ms": found.rest_ms,
        "needed_ms": found.needed_ms,
        "wait_ms": found.wait_ms,
        "is_kept": found.is_kept,
        "load": round(os.getloadavg()[0], 1) if is_here else None,
        "cores": len(os.sched_getaffinity(0)) if is_here else None,
    }


def read_headroom(
    directory: Path, participant: Participant, now_s: float | None = None
) -> list[Fact]:
    """What the processes of a participant estimate now; nothing if none runs on this machine."""
    now_s = clock.wall_s() if now_s is None else now_s
    of_driver = _path(directory, participant)
    of_workers = sorted(of_driver.parent.glob(_path(directory, participant, "*").name))
    return [fact for path in (of_driver, *of_workers) for fact in _facts(path, now_s)]


def _facts(path: Path, now_s: float) -> list[Fact]:
    try:
        document = json.loads(path.read_text())
        written_at_s, bounds = float(document["written_at_s"]), document["bounds"]
        is_new = 0 <= now_s - written_at_s < OLD_AFTER_S
        return [_checked(fact) for fact in bounds] if is_new else []
    except (OSError, *WRONG_FORM):
        return []


def bound_facts(home: Home, *, is_driven: bool) -> list[Fact]:
    """The headroom of each bound of a home: as its driver on this machine says, else, for a home
    that `is_driven` from another one, as its steps in the catalog say."""
    rows = read_headroom(home.directory, home.participant)
    if rows or not is_driven:
        return rows
    return [
        fact_of(found, is_here=False)
        for found in headrooms(costed_knowledge(home.catalog).fragments)
    ]


def _checked(fact: Any) -> Fact:
    """The fact, if it has the fields that the sentence needs; raises one of WRONG_FORM."""
    figures = {name: fact[name] for name in _FIGURES}
    if not all(map(is_number, figures.values())):
        raise ValueError("a figure is not a number")
    names = {"fragment": str(fact["fragment"]), "streams": [str(name) for name in fact["streams"]]}
    return {**names, **figures, "is_kept": bool(fact["is_kept"])}


_FIGURES = ("bound_ms", "step_ms", "around_ms", "gather_ms", "rest_ms", "needed_ms",
            "wait_ms", "load", "cores")  # fmt: skip


def headroom_sentence(fact: Fact) -> str:
    """That a bound may not be kept, with the figures."""
    parts = [
        (f"a step up to {_ms(fact['step_ms'])}", fact["step_ms"]),
        (f"the work around it {_ms(fact['around_ms'])}", fact["around_ms"]),
        (f"{_ms(fact['gather_ms'])} until its inputs are there", fact["gather_ms"]),
        (f"the rest of the path {_ms(fact['rest_ms'])}", fact["rest_ms"]),
    ]
    figures = ", ".join(text for text, ms in parts if ms)
    if fact["load"] is not None:
        figures += f"; load {fact['load']:g} on {fact['cores']} cores"
    return (
        f"{', '.join(fact['streams'])}: the bound of {_ms(fact['bound_ms'])} may not be kept on "
        f"this machine now: an answer without an input may take {_ms(fact['needed_ms'])} "
        f"({figures})"
    )


def _ms(length_ms: int) -> str:
    return duration(length_ms * 1_000)


def _path(directory: Path, participant: Participant, worker: str | None = None) -> Path:
    of_worker = "" if worker is None else f"@{worker}"  # in no name of a participant
    return directory / "logs" / f"{participant}{of_worker}.headroom.json"
