"""Every query is named, explained in a sentence, and used."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.catalog.postgres import queries

PACKAGE = Path(queries.__file__).parents[1]


@pytest.mark.parametrize("name", queries.query_names())
def test_a_query_begins_with_a_sentence_that_explains_it(name: str) -> None:
    first = queries.query(name).text.splitlines()[0]
    assert first.startswith("-- ")
    assert len(first) > len("-- ") + 20


def test_every_query_is_used() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    unused = [name for name in queries.query_names() if f'"{name}"' not in source]
    assert unused == []
