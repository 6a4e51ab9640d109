"""`python -m bench nexmark`: the queries of Nexmark that Medusa can say, each checked row for row.

Each query is a network in SQL, in `queries/`. It is replayed over generated events; DuckDB answers
the query of the same name in `judge/` over the same files, and the rows are compared as multisets.
docs/nexmark.md says which queries cannot be said, and why.

Exit code 1 where rows differ.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Parse, run, compare."""
    # Here: what compares answers is read by tests that need no command.
    from bench.nexmark.command import main as run

    return run(arguments)
