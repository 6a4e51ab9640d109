"""The documentation is plain technical English, as far as a pattern can tell.

A pattern here is a turn of phrase that the documentation of a database would not use. What a page
shows of a program's output or source is not looked at.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY

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
