"""Documentation and error messages are plain technical English, as far as a pattern can tell.

A pattern here is a turn of phrase that the documentation of a database would not use. What a page
shows of a program's output or source is not looked at.
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


def findings(path: Path) -> list[str]:
    """Every banned phrase of a page, with its line."""
    found = []
    text = prose_of(path)
    for kind, pattern in BANNED.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: {' '.join(match[0].split())!r} is {kind}")
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_page_has_no_banned_phrase(path: Path) -> None:
    assert findings(path) == []


def test_code_is_not_looked_at_and_prose_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Begin anew.\n\n```text\nanew\n```\n\n    whoever\n\n`is told` and\nis told.\n")
    assert [finding.partition(":")[0] for finding in findings(page)] == ["line 1", "line 10"]


# Messages of errors: the first argument of an error's class, and what SQL raises.

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
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ERRORS or name.endswith("Error"):
                yield text_of(node.args[0])


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
            found += [
                f"{path.relative_to(REPOSITORY)}: {message!r} has {kind}"
                for kind, pattern in BANNED.items()
                if re.search(pattern, message, re.IGNORECASE)
            ]
    assert messages > 100
    assert found == []
