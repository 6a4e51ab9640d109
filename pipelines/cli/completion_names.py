"""The names that a shell may complete, found without a database: a Tab must not wait for one.

Participants are those of the homes in MEDUSA_DIR (its record) and of the contracts; streams those
that a storage root has a folder for, and those that have a contract. What cannot be read has no
names; nothing is refused, and nothing but a name in Medusa's sense is given to a shell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.names import check_name

NAMES_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the homes in one folder and of the contracts in another."""

    directory: Path
    contracts: Path

    def participants(self) -> frozenset[str]:
        """Who has a home, or a contract."""
        return frozenset((*_names(self._homes()), *_stems(self.contracts / "participants")))

    def streams(self) -> frozenset[str]:
        """What is stored in a home, or has a contract."""
        stored = (path.name for root in self._roots() for path in _inside(root) if path.is_dir())
        return frozenset((*_names(stored), *_stems(self.contracts / "streams")))

    def networks(self) -> frozenset[str]:
        """The networks that come with Medusa."""
        from pipelines.language.load import SHIPPED

        return frozenset(SHIPPED)

    def _homes(self) -> Iterator[str]:
        yield from self._recorded("participants")

    def _roots(self) -> Iterator[Path]:
        given = self._recorded("storage")
        for participant in _names(self._homes()):
            yield self.directory / str(given.get(participant) or f"storage/{participant}")

    def _recorded(self, field: str) -> dict[str, object]:
        try:
            document = json.loads((self.directory / "home.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        found = document.get(field) if isinstance(document, dict) else None
        return found if isinstance(found, dict) else {}


def _stems(folder: Path) -> Iterator[str]:
    return _names(path.stem for path in _inside(folder) if path.suffix == ".yaml")


def _inside(folder: Path) -> Iterator[Path]:
    try:
        for number, path in enumerate(folder.iterdir()):
            if number >= NAMES_MAX:
                return
            yield path
    except (OSError, ValueError):
        return


def _names(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        try:
            yield check_name("name", word)
        except Refused:
            continue
