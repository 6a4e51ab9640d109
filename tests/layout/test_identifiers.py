"""No identifier of the product is made of a word that says nothing: each has a standard noun.

Strings, comments and docstrings are prose: only names in backticks count there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.layout.rooms import ROOT, nodes_of

BANNED: Mapping[str, str] = {
    "asked": "request, options, offer",
    "aside": "quarantine",
    "bell": "notification listener",
    "beside": "background worker, or the noun of what is there",
    "bury": "reap",
    "desk": "contract sync",
    "ears": "listener I/O",
    "keeper": "renewer, owner, anchor, leases",
    "keepers": "renewers, owners, anchors, leases",
    "letter": "envelope, inbox entry, character",
    "letters": "mailbox, characters",
    "lying": "placement, load status",
    "oath": "check",
    "patience": "wait budget, time-out, restart policy",
    "patient": "non-blocking",
    "said": "message, sentence, output, observer, answer",
    "seat": "session",
    "standing": "status, snapshot, state",
    "standings": "statuses, snapshots, states",
    "stands": "current, deployed",
    "strand": "fiber",
    "strands": "fibers",
    "swear": "check",
    "tell": "report, send, show, set",
    "teller": "observer",
    "telling": "report, state",
    "tells": "report, send",
    "thaw": "resume",
    "told": "message, text, on_error, recall, answer",
    "turn": "tick",
    "turns": "ticks",
    "wanted": "request, expected, needed",
    "way": "path, link, mode, route",
    "ways": "paths, links, modes, routes",
    "work": "plan, span, transaction, job, step",
    "works": "plans, spans, jobs, steps",
}
"""A word that an identifier may not contain, and what is said in its place."""

ALLOWED: Mapping[str, str] = {
    "one_way": "a drill of this name loses what goes in one direction of a link",
    "is_one_way": "whether a cut is that drill",
    "tell": "the position in a file, as Python calls it",
}
"""Identifiers that may contain one, with the reason; with an underscore before them too."""


def words_of(name: str) -> list[str]:
    """The words of a CamelCase or snake_case name."""
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


@cache
def banned_in(name: str) -> frozenset[str]:
    """The banned words that a name contains."""
    if name.strip("_") in ALLOWED:
        return frozenset()
    return frozenset(words_of(name)) & BANNED.keys()


def identifiers_of(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """What a module defines, with its line: classes, functions, parameters, attributes, names."""
    for node in nodes:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute():
                yield node.lineno, node.attr
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.value.lineno, name


def identifiers_in_sql(text: str) -> Iterator[tuple[int, str]]:
    """Every name in a file of SQL, with its line: neither strings nor comments."""
    bare = re.sub(r"--[^\n]*|'(?:[^']|'')*'", lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for number, line in enumerate(bare.splitlines(), start=1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            yield number, name


@cache
def python_files() -> tuple[Path, ...]:
    """The modules of the product."""
    rooms = (ROOT / "medusa_core", ROOT / "pipelines")
    return tuple(path for room in rooms for path in sorted(room.rglob("*.py")))


@cache
def sql_files() -> tuple[Path, ...]:
    """Everything that the database is made of, or asked."""
    return tuple(sorted((ROOT / "sql").rglob("*.sql")))


def complaints(path: Path, found: Iterator[tuple[int, str]]) -> list[str]:
    """Where a banned word is used, and what to say in its place."""
    return sorted(
        {
            f"{path.relative_to(ROOT)}:{line}: {name}: instead of {word} say {BANNED[word]}"
            for line, name in found
            for word in banned_in(name)
        }
    )


def test_no_identifier_of_python_contains_a_banned_word() -> None:
    assert len(python_files()) > 300
    found = [
        sentence
        for path in python_files()
        if "templates" not in path.parts
        for sentence in complaints(path, identifiers_of(nodes_of(path)))
    ]
    assert not found, "\n".join(found)


def test_no_identifier_of_sql_contains_a_banned_word() -> None:
    assert len(sql_files()) > 200
    found = [
        sentence
        for path in sql_files()
        for sentence in complaints(path, identifiers_in_sql(path.read_text("utf-8")))
    ]
    assert not found, "\n".join(found)


def test_prose_names_nothing_by_a_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (*python_files(), *sql_files())
        for name in re.findall(r"`([A-Za-z_][\w.]*)`", path.read_text("utf-8"))
        if any(banned_in(part) for part in name.split("."))
    ]
    assert not found, "\n".join(found)


def test_no_file_is_named_by_a_banned_word() -> None:
    files = [*python_files(), *sql_files()]
    found = {str(path.relative_to(ROOT)) for path in files if banned_in(path.stem)}
    assert not found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(standing): pass", {"standing"}),
        ("def take_seat(): pass", {"seat"}),
        ("class HoldingsTold: pass", {"told"}),
        ("one.turn_ms = 1", {"turn"}),
        ("f(told=1)", {"told"}),
        ("STEPS_PER_OATH = 1", {"oath"}),
        ("import a as ways", {"ways"}),
        ("def return_always(one_way, bellows, underwear): pass", set()),
        ("x = 'told'  # told", set()),
    ],
)
def test_a_banned_word_is_seen_wherever_a_name_is_defined(text: str, words: set[str]) -> None:
    seen = {
        word for _, name in identifiers_of(ast.walk(ast.parse(text))) for word in banned_in(name)
    }
    assert seen == words


def test_a_banned_word_is_seen_in_sql_outside_strings_and_comments() -> None:
    text = "SELECT told_by, 'asked' FROM x; -- wanted\nSELECT standing"
    assert {name for _, name in identifiers_in_sql(text) if banned_in(name)} == {
        "told_by",
        "standing",
    }


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_an_exception_that_is_not_needed_any_more_is_removed(name: str) -> None:
    texts = (path.read_text("utf-8") for path in (*python_files(), *sql_files()))
    assert any(re.search(rf"\b_?{name}\b", text) for text in texts)
