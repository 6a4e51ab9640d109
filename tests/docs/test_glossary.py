"""The glossary has a word for every class of the core, and no planned word is built."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from tests.docs.pages import page
from tests.layout.rooms import nodes_of

ENTRY = re.compile(r"^\*\*([a-z -]+)\*\*( \*\(planned\)\*)? (.+)$", re.MULTILINE)
ALSO = re.compile(r"\*Also:\* ([^.]+)\.")


def entries() -> list[tuple[str, bool, str]]:
    """Every word with whether it is planned, and its sentence."""
    return [(word, bool(planned), text) for word, planned, text in ENTRY.findall(page("glossary"))]


@cache
def words() -> set[str]:
    """Every word that is an entry, or a form of one."""
    lists = (also for _, _, text in entries() for also in ALSO.findall(text))
    forms = {form for also in lists for form in also.split(", ")}
    return {word for word, _, _ in entries()} | forms


@cache
def parts_of(name: str) -> tuple[str, ...]:
    """The words of a CamelCase or snake_case name."""
    return tuple(part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name))


def is_word(name: str) -> bool:
    """Whether a class is named by a word of the glossary: as a whole, or by its last noun."""
    parts = parts_of(name)
    candidates = {" ".join(parts), parts[-1], parts[-1].removesuffix("s")}
    return bool(candidates & words())


@cache
def classes() -> frozenset[str]:
    """Every class of the core that is not private, as module:Class."""
    core = REPOSITORY / "medusa_core"
    return frozenset(
        f"{path.relative_to(core).with_suffix('')}:{node.name}"
        for path in core.rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_every_entry_is_one_sentence_in_order_and_once() -> None:
    found = [word for word, _, _ in entries()]
    assert len(found) == page("glossary").count("\n**") > 120
    assert found == sorted(found)
    assert len(found) == len(set(found))
    for word, _, text in entries():
        sentence = ALSO.sub("", text).strip()
        assert sentence.endswith("."), word
        assert ". " not in sentence, f"{word} has more than one sentence"


@pytest.mark.parametrize("name", sorted(classes()))
def test_every_class_of_the_core_is_a_word_of_the_glossary(name: str) -> None:
    assert is_word(name.partition(":")[2])


# Planned words


def names_of_python() -> Iterator[str]:
    """Every class and function of the product."""
    for room in ("medusa_core", "pipelines"):
        for path in (REPOSITORY / room).rglob("*.py"):
            for node in nodes_of(path):
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    yield node.name


def names_of_sql() -> Iterator[str]:
    """Every table, view, type and function of the schema."""
    created = re.compile(
        r"CREATE (?:OR REPLACE )?(?:TABLE|VIEW|FUNCTION|TYPE|DOMAIN)\s+(?:IF NOT EXISTS )?"
        r"\w+\.(\w+)",
        re.IGNORECASE,
    )
    for path in (REPOSITORY / "sql").rglob("*.sql"):
        if "migrations" not in path.parts and "queries" not in path.parts:
            yield from created.findall(path.read_text(encoding="utf-8"))


def is_named_in(term: str, name: str) -> bool:
    """Whether a name contains a term, in the singular or the plural, or as a participle."""
    singular, text = term.removesuffix("s"), " ".join(parts_of(name))
    stem = re.escape(singular.removesuffix("e"))
    return re.search(rf"\b{stem}e?(s|d|ed)?\b", text) is not None


def test_no_planned_word_is_built() -> None:
    planned = [word for word, is_planned, _ in entries() if is_planned]
    assert planned
    names = {*names_of_python(), *names_of_sql()}
    assert len(names) > 3_000
    built = {(word, name) for word in planned for name in names if is_named_in(word, name)}
    assert not built


@pytest.mark.parametrize("path", sorted((REPOSITORY / "docs").glob("*.md")), ids=lambda p: p.stem)
def test_planned_is_said_in_the_glossary_alone(path: Path) -> None:
    if path.stem not in ("glossary", "architecture"):
        assert "*(planned)*" not in path.read_text(encoding="utf-8")
