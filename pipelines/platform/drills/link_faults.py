"""Injected faults of links: rows in one small file of MEDUSA_DIR, `drills.json`.

A fault has a direction: messages of `sender` are lost before they reach `receiver`; a cut link is
two such faults. A slow link adds a time to every call over it. A row may hold its end, by the
machine's clock, so that a drill ends although the process that started it has died. The file is
replaced by a rename; a reader takes it strictly or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medusa_core.errors import WRONG_FORM, Refused, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.base.files import FileLock, open_regular, write_atomically
from pipelines.base.foreign_documents import is_number

FILE, GUARD = "drills.json", "drills.lock"
FORMAT = 1
BYTES_MAX = 1_000_000
BY_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing that the sender sends reaches the receiver; `until_s` is Unix time, None for ever."""

    sender: Participant
    receiver: Participant
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """Every call between two, named in order, takes `by_ms` longer."""

    one: Participant
    other: Participant
    by_ms: int
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class LinkFaults:
    """All that is wrong with links."""

    lost: tuple[Lost, ...] = ()
    slow: tuple[Slow, ...] = ()
    packets: tuple[Lost, ...] = ()
    """Between machines: their packets are dropped (`packet_cut.py`), so calls are made as ever."""

    def at(self, now_s: float) -> LinkFaults:
        """Those that still hold."""
        return LinkFaults(
            tuple(row for row in self.lost if row.until_s is None or row.until_s > now_s),
            tuple(row for row in self.slow if row.until_s is None or row.until_s > now_s),
            tuple(row for row in self.packets if row.until_s is None or row.until_s > now_s),
        )

    def is_lost(self, sender: Participant, receiver: Participant, now_s: float) -> bool:
        """Whether what one sends does not reach the other now."""
        return any(
            (row.sender, row.receiver) == (sender, receiver)
            for row in self.lost
            if row.until_s is None or row.until_s > now_s
        )

    def by_ms(self, one: Participant, other: Participant, now_s: float) -> int:
        """How much longer a call between two takes now."""
        pair = tuple(sorted((one, other)))
        held = (row for row in self.slow if row.until_s is None or row.until_s > now_s)
        return max((row.by_ms for row in held if (row.one, row.other) == pair), default=0)

    def with_lost(self, *rows: Lost) -> LinkFaults:
        """With links that are lost; replaces their earlier faults."""
        kept = self._without_lost(rows)
        return replace(kept, lost=(*kept.lost, *rows))

    def with_packets(self, *rows: Lost) -> LinkFaults:
        """With links whose packets are dropped; replaces their earlier faults."""
        kept = self._without_lost(rows)
        return replace(kept, packets=(*kept.packets, *rows))

    def _without_lost(self, rows: Iterable[Lost]) -> LinkFaults:
        named = {(row.sender, row.receiver) for row in rows}

        def others(of: Iterable[Lost]) -> tuple[Lost, ...]:
            return tuple(row for row in of if (row.sender, row.receiver) not in named)

        return replace(self, lost=others(self.lost), packets=others(self.packets))

    def with_slow(self, row: Slow) -> LinkFaults:
        """With a slow link; replaces its earlier fault."""
        kept = (other for other in self.slow if (other.one, other.other) != (row.one, row.other))
        return replace(self, slow=(*kept, row))

    def without(self, is_healed: Callable[[frozenset[Participant]], bool]) -> LinkFaults:
        """Without what is wrong with some links, named by their ends."""
        return LinkFaults(
            tuple(r for r in self.lost if not is_healed(frozenset((r.sender, r.receiver)))),
            tuple(r for r in self.slow if not is_healed(frozenset((r.one, r.other)))),
            tuple(r for r in self.packets if not is_healed(frozenset((r.sender, r.receiver)))),
        )


NOTHING = LinkFaults()


def read_faults(file: Path) -> LinkFaults:
    """What the file says, nothing if there is none; Refused if it is not as Medusa wrote it."""
    try:
        with open_regular(file) as opened:
            text = opened.read(BYTES_MAX + 1)
        if len(text) > BYTES_MAX:
            raise ValueError("too long")
        return _faults_of(json.loads(text))
    except FileNotFoundError:
        return NOTHING
    except (OSError, Refused, *WRONG_FORM) as error:
        raise Refused(
            f"{file} is not as Medusa wrote it, so no link is cut by it: run `medusa fault heal` "
            "to start again"
        ) from error


def _faults_of(document: Any) -> LinkFaults:
    if isinstance(document, dict):
        document = {"packets": [], **document}
    _check_keys(document, {"format", "lost", "slow", "packets"})
    if document["format"] != FORMAT or isinstance(document["format"], bool):
        raise ValueError("format")
    lost, packets = (
        tuple(
            Lost(*_two(row["from"], row["to"]), _until(row["until_s"]))
            for row in document[what]
            if _check_keys(row, {"from", "to", "until_s"})
        )
        for what in ("lost", "packets")
    )
    slow = tuple(
        Slow(*_two(*row["between"]), _by_ms(row["by_ms"]), _until(row["until_s"]))
        for row in document["slow"]
        if _check_keys(row, {"between", "by_ms", "until_s"})
    )
    if any(row.one > row.other for row in slow):
        raise ValueError("order")
    return LinkFaults(lost, slow, packets)


def _check_keys(row: Any, keys: set[str]) -> bool:
    if not isinstance(row, dict) or row.keys() != keys:
        raise ValueError("fields")
    return True


def _two(one: Any, other: Any) -> tuple[Participant, Participant]:
    names = [Participant(check_name("participant", name)) for name in (one, other)]
    if one == other:
        raise ValueError("one participant")
    return names[0], names[1]


def _until(value: Any) -> float | None:
    if value is None:
        return None
    if not is_number(value):
        raise ValueError("until_s")
    return float(value)


def _by_ms(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= BY_MS_MAX:
        raise ValueError("by_ms")
    return value


def document_of(faults: LinkFaults) -> Mapping[str, Any]:
    """As it is written."""
    return {
        "format": FORMAT,
        "lost": lost_rows(faults.lost),
        "packets": lost_rows(faults.packets),
        "slow": [
            {"between": [row.one, row.other], "by_ms": row.by_ms, "until_s": row.until_s}
            for row in faults.slow
        ],
    }


def lost_rows(rows: Iterable[Lost]) -> list[dict[str, Any]]:
    """As JSON."""
    return [{"from": row.sender, "to": row.receiver, "until_s": row.until_s} for row in rows]


def write_faults(directory: Path, faults: LinkFaults) -> None:
    """Put it in the place of what is there, all at once; raises Unavailable if it cannot be."""
    text = json.dumps(document_of(faults), allow_nan=False) + "\n"
    try:
        write_atomically(directory / FILE, text, durable=False)
    except OSError as error:
        raise Unavailable(
            f"{directory / FILE} cannot be written ({error.strerror}): mend the folder, then try "
            "again"
        ) from error


@contextmanager
def faults_alone(directory: Path) -> Iterator[None]:
    """One command after the other changes the file."""
    try:
        lock = FileLock(directory / GUARD, waits=True)
    except OSError as error:
        raise Unavailable(
            f"{directory / GUARD} cannot be written ({error.strerror}): mend the folder, then try "
            "again"
        ) from error
    with lock:
        yield
