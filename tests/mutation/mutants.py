"""A mutant: a file of the product with a few characters changed, and a name that lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """The characters from `start` to `end` give way to a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change. `where` is the function or table, `line` where it begins (for people)."""

    room: str
    path: str
    where: str
    kind: str
    line: int
    before: str
    after: str
    edits: tuple[Edit, ...]
    id: str = ""

    def applied(self, source: str) -> str:
        """The file with the change."""
        for edit in sorted(self.edits, reverse=True):
            source = source[: edit.start] + edit.text + source[edit.end :]
        return source

    def shown(self) -> str:
        """One line for people."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.id}  {self.path}:{self.line}  {before[:70]!r} -> {after[:70]!r}"


def named(mutants: Iterable[Mutant]) -> Iterator[Mutant]:
    """Each with an id made of its object and text: not of lines or, for SQL, files."""
    times: Counter[str] = Counter()
    for mutant in mutants:
        text = " ".join(f"{mutant.before} -> {mutant.after}".split())
        place = f"{mutant.path}::{mutant.where}" if mutant.room != "sql" else f"sql::{mutant.where}"
        key = f"{place}::{mutant.kind}::{text}"
        times[key] += 1
        digest = sha256(f"{key}::{times[key]}".encode()).hexdigest()[:8]
        yield replace(mutant, id=f"{place}::{mutant.kind}::{digest}")
