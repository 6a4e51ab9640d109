"""Which tests reach what: the core's functions by a trace, objects of SQL by what a test says.

A traced run of the core's tests is kept in `.medusa/mutation` until the core changes; a file of
tests that changes is run again. A test reaches the SQL that its text names, and that which is named
by the queries behind the methods that it calls; what that uses is found in the text of the SQL.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.mutation.sql_text import statements_of, tokens_of

_NAMED = re.compile(r"\bmedusa(?:_api)?\.[a-z_]+")
_WRITTEN = re.compile(r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(medusa\.[a-z_]+)", re.I)
_CREATED = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:UNIQUE\s+|CONSTRAINT\s+)?"
    r"(FUNCTION|TABLE|VIEW|TRIGGER|INDEX)\s+([\w.]+)", re.I,
)  # fmt: skip


@contextmanager
def traced_functions(package: Path) -> Iterator[set[str]]:
    """The functions of a package that are called meanwhile, as `path::name`."""
    found: set[str] = set()
    prefix, seen = str(package), set()

    def look(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if code not in seen:
            seen.add(code)
            if code.co_filename.startswith(prefix):
                name = code.co_qualname.split(".<locals>")[0]  # type: ignore[attr-defined]
                found.add(f"{Path(code.co_filename).relative_to(package.parent)}::{name}")

    sys.settrace(look)
    try:
        yield found
    finally:
        sys.settrace(None)


def queries_of_methods(catalog: Path) -> Mapping[str, frozenset[str]]:
    """Method of a catalog -> the queries that its body names."""
    queries = {path.stem for path in catalog.parents[1].glob("sql/queries/*.sql")}
    found: dict[str, set[str]] = defaultdict(set)
    for path in catalog.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)
                         and isinstance(n.value, str)}  # fmt: skip
                found[node.name] |= texts & queries
    return {name: frozenset(used) for name, used in found.items() if used}


def sql_said(
    text: str, methods: Mapping[str, frozenset[str]], queries: Mapping[str, str]
) -> set[str]:
    """Objects and queries that a text names, or reaches by a method of a catalog."""
    found = named_in(text)
    for name in set(re.findall(r"\b(\w+)\(", text)) & methods.keys():
        for query in methods[name]:
            found |= {query} | named_in(queries[query])
    return found


def named_in(text: str) -> set[str]:
    """Objects of SQL that a text names: what a test sends by a connection of its own."""
    return set(_NAMED.findall(text))


def references(sources: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Object -> what it calls, reads or, by writing to a table, sets off."""
    uses: dict[str, set[str]] = defaultdict(set)
    fired: dict[str, set[str]] = defaultdict(set)
    written: dict[str, set[str]] = {}
    for source in sources:
        for statement in statements_of(tokens_of(source)):
            text = source[statement[0].start : statement[-1].end]
            created = _CREATED.match(text)
            if created is None:
                continue
            kind, name = created[1].upper(), created[2]
            named = named_in(text) - {name}
            if kind == "TRIGGER":
                table = re.search(r"\bON\s+([\w.]+)", text)
                assert table is not None
                fired[table[1]] |= named - {table[1]} | {f"{table[1]}.{name}"}
            elif kind == "INDEX":
                table = re.search(r"\bON\s+([\w.]+)", text)
                assert table is not None
                fired[table[1]].add(name)
            else:
                uses[name] |= named
                written[name] = set(_WRITTEN.findall(text))
    for name, tables in written.items():
        for table in tables:
            uses[name] |= fired[table]
    for table, names in fired.items():
        uses.setdefault(f"write {table}", set()).update(names)
    return {name: frozenset(used) for name, used in uses.items()}


def distances(begin: Iterable[str], uses: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """What can be reached from these objects, and in how many steps at least."""
    found = dict.fromkeys(begin, 0)
    edge: Sequence[str] = list(found)
    steps = 0
    while edge:
        steps += 1
        edge = [n for name in edge for n in uses.get(name, ()) if n not in found
                and not found.update({n: steps})]  # type: ignore[func-returns-value]  # fmt: skip
    return found
