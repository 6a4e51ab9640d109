"""The files handed over by a watched folder, batch by batch: each is read exactly once.

Before anything of a batch is read, its files are recorded here, in a list of names that becomes
the one new file of Spark's stream. So Spark lists and remembers lists, never the folder's files,
and the cost of a poll does not grow with the number of past files. After some hundred batches a
new generation begins with a new checkpoint; it keeps only the names.

    <first batch>/lists/<batch>    one JSON document a line: a file of that batch
    <first batch>/names            the files of all batches before, in the same form
    <first batch>/spark/           the checkpoint, whose batch 0 is that first batch

A name stays known while an entry of that name is in the folder, and REMEMBER_MS longer.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import WRONG_FORM, Refused
from pipelines.base.files import rename, sync_folder, write_atomically
from pipelines.sources.live.arrivals import Arrival

BATCHES_PER_GENERATION = 256
REMEMBER_MS = 30 * 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A file that was handed over: its time in ms, and when it was, by the catalog's clock.

    `folder` is which one it lay in: device and inode, zeros where that was not written down.
    """

    name: str
    at_ms: int
    handed_ms: int
    folder: tuple[int, int] = (0, 0)

    def to_json(self) -> str:
        """One line of ASCII, whatever the name."""
        return json.dumps(
            {
                "name": self.name,
                "at_ms": self.at_ms,
                "handed_ms": self.handed_ms,
                "folder": self.folder,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Handed:
        """What `to_json` wrote; raises ValueError for anything else."""
        try:
            found = json.loads(line)
            device, inode = found.get("folder", (0, 0))
            return cls(
                name=str(found["name"]),
                at_ms=int(found["at_ms"]),
                handed_ms=int(found["handed_ms"]),
                folder=(int(device), int(inode)),
            )
        except WRONG_FORM as error:
            raise ValueError(f"no file that was handed over: {line[:100]}") from error


class HandOver:
    """The lists of one source; `folder` is its own. Reads all names once, when it is made.

    Raises Refused if what is there was not written here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        bases = [int(name) for name in _names_in(folder) if name.isdecimal()]
        self.base = max(bases, default=0)
        numbers = [int(name) for name in _names_in(self.lists) if name.isdecimal()]
        self.last = max(numbers, default=self.base - 1)
        self._handed_ms: dict[str, int] = {}
        self._written_ms: dict[str, int] = {}
        files = [self._generation / "names", *(self.lists / _named(n) for n in sorted(numbers))]
        for file in files:
            for handed in _read(file):
                self._handed_ms[handed.name] = handed.handed_ms
                self._written_ms[handed.name] = handed.at_ms

    @property
    def written_ms(self) -> Mapping[str, int]:
        """The modification time of each known file when it was handed over; 0 if not known."""
        return self._written_ms

    @property
    def known(self) -> Mapping[str, int]:
        """Every name that was handed over and is not forgotten, and when."""
        return self._handed_ms

    @property
    def lists(self) -> Path:
        """The folder that Spark watches."""
        return self._generation / "lists"

    @property
    def checkpoint(self) -> Path:
        """Spark's own."""
        return self._generation / "spark"

    @property
    def _generation(self) -> Path:
        return self._folder / _named(self.base)

    @property
    def begun(self) -> int:
        """The last batch that Spark began, or the one before the first."""
        return self.base + max(self._numbers("offsets"), default=-1)

    @property
    def done(self) -> int:
        """The last batch that Spark knows to have landed, or the one before the first."""
        return self.base + max(self._numbers("commits"), default=-1)

    def hand_over(
        self, arrivals: Iterable[Arrival], now_ms: int, folder: tuple[int, int] = (0, 0)
    ) -> None:
        """Write down the files of the next batch: from here on they are read, and only once."""
        handed = [
            Handed(name=a.name, at_ms=a.at_ms, handed_ms=now_ms, folder=folder) for a in arrivals
        ]
        if not self.lists.is_dir():
            self.lists.mkdir(parents=True)
            sync_folder(self._generation)
            sync_folder(self._folder)
        _write(self.lists, _named(self.last + 1), handed)
        self.last += 1
        self._handed_ms.update((h.name, h.handed_ms) for h in handed)
        self._written_ms.update((h.name, h.at_ms) for h in handed)

    def handed(self, batch: int) -> Sequence[Handed]:
        """The files of a batch. Raises Refused if its list is gone or not as it was written."""
        file = self.lists / _named(batch)
        if not file.exists():
            raise _damaged(file)
        return _read(file)

    def begin_generation_if_due(self, present: Callable[[], frozenset[str]], now_ms: int) -> None:
        """Once all batches are done, and they are many, start again; `present` lists the folder."""
        if self.last - self.base + 1 < BATCHES_PER_GENERATION or self.done != self.last:
            return
        there = present()
        self._handed_ms = {
            name: handed_ms
            for name, handed_ms in self._handed_ms.items()
            if name in there or handed_ms > now_ms - REMEMBER_MS
        }
        self._written_ms = {name: self._written_ms[name] for name in self._handed_ms}
        kept = [
            Handed(name=n, at_ms=self._written_ms[n], handed_ms=ms)
            for n, ms in self._handed_ms.items()
        ]
        base = self.last + 1
        new = self._folder / f".{_named(base)}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        _write(new, "names", kept)
        rename(new, self._folder / _named(base))
        sync_folder(self._folder)
        self.base = base
        for name in _names_in(self._folder):
            if name != _named(base):
                shutil.rmtree(self._folder / name, ignore_errors=True)

    def _numbers(self, log: str) -> list[int]:
        return [int(name) for name in _names_in(self.checkpoint / log) if name.isdecimal()]


def _named(number: int) -> str:
    return f"{number:012d}"


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _read(file: Path) -> list[Handed]:
    try:
        return [Handed.from_json(line) for line in file.read_text("ascii").splitlines()]
    except FileNotFoundError:
        return []
    except ValueError:
        raise _damaged(file) from None


def _damaged(file: Path) -> Refused:
    return Refused(
        f"{file} is not as it was written, so nobody knows which files are new: restore both "
        "catalog and checkpoint from one backup, or give the stream another name"
    )


def _write(folder: Path, name: str, handed: Iterable[Handed]) -> None:
    """A list under its name, whole and durable, or not at all; Spark passes hidden names over."""
    write_atomically(folder / name, "".join(f"{h.to_json()}\n" for h in handed))
