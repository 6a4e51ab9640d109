"""Documentation and messages are plain technical English, as far as a pattern can tell.

A pattern here is a turn of phrase that the documentation of a database would not use. What a page
shows of a program's output or source is not looked at. Texts that users see are those of the rooms
that write to the terminal, to pages, to metrics and to Airflow; docstrings of modules are looked
at, those of functions are not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from tests.layout.rooms import nodes_of

BANNED = {
    "a noun said to be none": r"(?<!there )\b(is|are) none\b",
    "an archaism": r"\banew\b|\bwhoever\b|\bwhomever\b|\bfor ever\b|\bhitherto\b|\bthereof\b",
    "an inverted clause": r"(^|[.;:,(]\s)of (so|which|what|whom)\b"
    r"|\bwhat(ever)? (becomes|became|came|comes) of\b",
    "a metaphor for releasing": r"\b(let|lets|letting) go of\b",
    "a metaphor for a state": r"\b(stands|stood|lies|lay)\b",
    "telling without a speaker": r"\b(told|tells)\b",
    "a clause for a noun": r"\bwho (reads|makes|has|is|was|holds|asks|computes|says|looks)\b",
    "moving without a direction": r"\b(goes|go|went|going) on\b",
    "putting aside": r"\bput aside\b|\bputs aside\b",
    "an old comparison": r"\bthe like\b|\bto hold against\b|\bheld against\b",
}

PAGES = (
    REPOSITORY / "README.md",
    REPOSITORY / "bench" / "README.md",
    REPOSITORY / "sql" / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
)


def prose_of(path: Path) -> str:
    """The text of a page without blocks and spans of code; lines stay where they are."""
    text = path.read_text(encoding="utf-8")
    for code in (r"(?s)```.*?```", r"(?m)^ {4}\S.*$", r"`[^`]*`"):
        text = re.sub(code, lambda found: "\n" * found[0].count("\n"), text)
    return text


def kinds_in(text: str) -> list[str]:
    """The kinds of banned phrases in a text."""
    return [kind for kind, phrase in BANNED.items() if re.search(phrase, text, re.IGNORECASE)]


def name_of(path: Path) -> str:
    """The path of a file in the repository."""
    return str(path.relative_to(REPOSITORY))


def findings(path: Path) -> list[str]:
    """Every banned phrase of a page, with its line."""
    found = []
    text = prose_of(path)
    for kind, pattern in BANNED.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: {' '.join(match[0].split())!r} is {kind}")
    return found


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_has_no_banned_phrase(path: Path) -> None:
    assert findings(path) == []


def test_code_is_not_looked_at_and_prose_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Begin anew.\n\n```text\nanew\n```\n\n    whoever\n\n`is told` and\nis told.\n")
    assert [finding.partition(":")[0] for finding in findings(page)] == ["line 1", "line 10"]


# Messages of errors: the first argument of an error's class, each argument of a function that makes
# an error, and what SQL raises.

MAKES_AN_ERROR = re.compile(r"refus|wrong|unavail|problem|finding|warning", re.IGNORECASE)
RAISED = re.compile(r"RAISE\s+EXCEPTION\s+((?:'(?:[^']|'')*'\s*)+)")


def text_of(node: ast.expr) -> str:
    """The text of a constant, an f-string (values as {}) or a sum of them; else nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(v) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return ""


def python_messages(path: Path) -> Iterator[str]:
    """The message of each error that a module raises or returns."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ERRORS or name.endswith("Error"):
                yield from map(text_of, node.args[:1])
            elif MAKES_AN_ERROR.search(name):
                values = (*node.args, *(keyword.value for keyword in node.keywords))
                yield from (text for text in map(text_of, values) if " " in text)


def sql_messages(path: Path) -> Iterator[str]:
    """The message of each error that a file of SQL raises."""
    for found in RAISED.finditer(path.read_text(encoding="utf-8")):
        yield "".join(re.findall(r"'((?:[^']|'')*)'", found[1]))


ERRORS = {
    node.name
    for node in ast.parse((REPOSITORY / "medusa_core" / "errors.py").read_text()).body
    if isinstance(node, ast.ClassDef)
}
SOURCES = [
    *(("*.py", REPOSITORY / room) for room in ("medusa_core", "pipelines")),
    ("*.sql", REPOSITORY / "sql"),
]


@pytest.mark.parametrize(("files", "folder"), SOURCES, ids=lambda value: Path(value).name)
def test_an_error_message_has_no_banned_phrase(files: str, folder: Path) -> None:
    messages_of = sql_messages if files == "*.sql" else python_messages
    found, messages = [], 0
    for path in sorted(folder.rglob(files)):
        for message in messages_of(path):
            messages += 1
            found += [f"{name_of(path)}: {message!r} has {kind}" for kind in kinds_in(message)]
    assert messages > 100
    assert found == []


@pytest.mark.parametrize(
    "call",
    ["value.at.refused('is none')", "_refusal(at, 'is none')", "WrongField(problem='is none')"],
)
def test_a_message_is_found_in_each_call_that_makes_an_error(call: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(f"raise {call}\n")
    assert [*python_messages(tmp_path / "module.py")] == ["is none"]


# Texts that users see, and docstrings of modules.

SHOWN = (
    *(REPOSITORY / "pipelines" / room for room in ("airflow", "cli", "report", "watching")),
    REPOSITORY / "pipelines" / "catalog" / "postgres" / "database_errors.py",
)


def shown_texts(path: Path) -> Iterator[str]:
    """The strings of a module that have a space, and its docstring; no other docstring."""
    nodes = nodes_of(path)
    module = nodes[0]
    assert isinstance(module, ast.Module)
    yield ast.get_docstring(module) or ""
    if not any(path.is_relative_to(shown) for shown in SHOWN):
        return
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in alone:
            yield node.value if isinstance(node.value, str) and " " in node.value else ""


def test_a_shown_text_and_the_docstring_of_a_module_have_no_banned_phrase() -> None:
    found = {
        (name_of(path), kind): text
        for room in ("medusa_core", "pipelines", "dags")
        for path in sorted((REPOSITORY / room).rglob("*.py"))
        for text in shown_texts(path)
        for kind in kinds_in(text)
    }
    assert found == {}
