"""Every query that the Postgres catalog sends, by name: SQL stays SQL, in `sql/queries/*.sql`.

A file is one statement; its leading comment is a sentence about its result.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlalchemy import TextClause, text

SQL_FOLDER = Path(__file__).resolve().parents[3] / "sql"


@cache
def query(name: str) -> TextClause:
    """The statement of that name, prepared once."""
    return text((SQL_FOLDER / "queries" / f"{name}.sql").read_text(encoding="utf-8"))


def query_names() -> tuple[str, ...]:
    """All names, sorted."""
    return tuple(sorted(path.stem for path in (SQL_FOLDER / "queries").glob("*.sql")))
