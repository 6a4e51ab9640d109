"""Prose names what exists: a name or a path in backticks is one of the repository's.

Looked at are pages, docstrings, and comments of Python and SQL. Not looked at are single words
without a capital, a dot or an underscore: values and examples are written so.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from tests.docs.test_language import PAGES, prose_of

FOREIGN = frozenset(
    {
        "AIRFLOW__CORE__DAGS_FOLDER",
        "MedusaJobDiffers",
        "MEDUSA_AIRFLOW_PORT",
        "SPARK_LOCAL_HOSTNAME",
        "airflow.cfg",
        "apache_airflow_provider",
        "asyncProgressTracking",
        "dpc.md",
        "max_locks_per_transaction",
        "roles.sql",
        "spark.kerberos.keytab",
        "spark.kerberos.principal",
        "spark.kubernetes.driver.pod.name",
        "turned_away.py",
        "work_mem",
    }
)
"""Names of other programs, of files that a user or a command writes, and of an alert."""

MADE = re.compile(r"(medusa|process)_\w+|DATABASE_\w+|_[a-z]+|\w+\.json")
"""Names that are put together (metrics, logins, suffixes), and files that a home writes."""

ROOTS = ("medusa_core", "pipelines", "dags", "sql", "tests", "bench", "docs", "docker")
PATH = re.compile(r"([\w-]+/)*[\w-]+(\.(py|sql|css|md))?/?")
PLACEHOLDER = re.compile(r"[A-Z]{3,}|(^|/)my_|^functions/topic/|^contracts/")
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\(\))?")
CODE = re.compile(r"`([^`\n]+)`")


def is_path(span: str) -> bool:
    """Whether a span of code is a path of the repository, from its top or a later part."""
    if not PATH.fullmatch(span) or PLACEHOLDER.search(span) or span in FOREIGN:
        return False
    return span.endswith((".py", ".sql", ".css", ".md")) or span.partition("/")[0] in ROOTS


def is_name(span: str) -> bool:
    """Whether a span of code has the form of a name that must exist."""
    has_form = NAME.fullmatch(span) and re.search(r"[a-z][A-Z]|[._]", span)
    return bool(has_form) and span not in FOREIGN and not MADE.fullmatch(span)


@cache
def files() -> tuple[str, ...]:
    """Every file of the repository, by its path from the top."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return tuple(path for path in listed.stdout.split("\n") if (REPOSITORY / path).is_file())


@dataclass(frozen=True)
class Module:
    """The text of a module: code, and each docstring (or other text of several lines) and comment
    with its line."""

    code: str
    prose: tuple[tuple[int, str], ...]

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of its code."""
        return frozenset(re.findall(r"\w+", self.code))


PIECE = re.compile(
    r"""(?six)
    (?P<prose> (?<!\w) [bfru]{0,2} "{3} (?: \\. | [^\\] )*? "{3} | \# [^\n]* )
    | '{3} (?: \\. | [^\\] )*? '{3} | " (?: \\. | [^"\\\n] )* " | ' (?: \\. | [^'\\\n] )* '
    """
)
"""A text of several lines or a comment; another text, in which neither begins."""


@cache
def module(path: str) -> Module:
    """A module, split. Reading it as Python's tokenizer does takes ten times as long."""
    text = (REPOSITORY / path).read_text("utf-8")
    prose: list[tuple[int, str]] = []

    def piece(found: re.Match[str]) -> str:
        if not found["prose"]:
            return found[0]
        prose.append((text.count("\n", 0, found.start()) + 1, found[0]))
        return " "

    return Module(PIECE.sub(piece, text), tuple(prose))


@cache
def known() -> frozenset[str]:
    """Every word of code, of settings and of paths: outside of docstrings and comments."""
    words = {part for path in files() for part in (*Path(path).parts, Path(path).stem)}
    for path in files():
        if path.endswith(".py"):
            words |= module(path).words
        elif path.endswith(".sql"):
            text = (REPOSITORY / path).read_text("utf-8")
            words.update(re.findall(r"\w+", re.sub(r"--[^\n]*", "", text)))
        elif path.endswith((".yml", ".yaml", ".toml", ".json", ".cfg", "Makefile", "Dockerfile")):
            words.update(re.findall(r"\w+", (REPOSITORY / path).read_text("utf-8")))
    return frozenset(words)


def exists(span: str) -> bool:
    """Whether a path leads to a file or a folder, or all parts of a name are words of the code."""
    if is_path(span):
        end = span.rstrip("/")
        return any(f"/{path}".endswith(f"/{end}") or f"/{end}/" in f"/{path}" for path in files())
    parts = span.removesuffix("()").split(".")
    if parts[0] in ("medusa_core", "pipelines") and len(parts) > 1:
        return is_in_module(parts)
    return all(part in known() for part in parts)


def is_in_module(parts: Sequence[str]) -> bool:
    """Whether a dotted name leads to a module or a room, and then to words of that module."""
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length])
        if f"{path}.py" in files():
            return all(part in module(f"{path}.py").words for part in parts[length:])
        if (REPOSITORY / path).is_dir():
            return length == len(parts)
    return False


def unknown_in(text: str) -> Iterator[tuple[int, str]]:
    """Each name in backticks that nothing has, with its line."""
    for found in CODE.finditer(text):
        if (is_path(found[1]) or is_name(found[1])) and not exists(found[1]):
            yield text.count("\n", 0, found.start()) + 1, found[1]


@pytest.mark.parametrize(
    "path",
    PAGES,
    ids=lambda path: str(path.relative_to(REPOSITORY)),
)
def test_a_page_names_what_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    for block in (r"(?s)```.*?```", r"(?m)^ {4}\S.*$"):
        text = re.sub(block, lambda found: "\n" * found[0].count("\n"), text)
    assert list(unknown_in(text)) == []
    assert prose_of(path)


def test_docstrings_and_comments_name_what_exists() -> None:
    found = [
        f"{path}:{start + line - 1}: {name}"
        for path in files()
        if path.endswith(".py")
        for start, text in module(path).prose
        for line, name in unknown_in(text)
    ]
    assert not found, "\n".join(found)


def test_comments_of_sql_name_what_exists() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path in files()
        if path.endswith(".sql")
        for line, name in unknown_in((REPOSITORY / path).read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("span", "is_so"),
    [
        ("pipelines/participant/loop.py", True),
        ("pipelines/participant", True),
        ("owed.py", True),
        ("ParticipantLoop.run", True),
        ("medusa.commit_step", True),
        ("pipelines.participant.loop.LoopObserver", True),
        ("pipelines.participant.loop.Loop" + "Recorder", False),
        ("pipelines.participant.driver.LoopObserver", False),
        ("pipelines/participant/no_such.py", False),
        ("pipelines/nowhere", False),
        ("no_such_" + "name_", False),
        ("ParticipantLoop.walk_" + "home_", False),
    ],
)
def test_a_name_that_nothing_has_is_noticed(span: str, is_so: bool) -> None:
    assert is_path(span) or is_name(span)
    assert exists(span) == is_so
