"""docs/nexmark.md says of each query of the benchmark what is true of it."""

from __future__ import annotations

import re
from pathlib import Path

from bench.nexmark.answers import QUERIES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "nexmark.md"
ROW = re.compile(r"^\| (q\d+) \| .+ \| (yes|no) \| .+ \|$", re.MULTILINE)


def test_each_query_is_there_once_and_runs_where_the_page_says_so() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert [query for query, _ in rows] == [f"q{number}" for number in range(23)]
    assert [query for query, runs in rows if runs == "yes"] == list(QUERIES)
