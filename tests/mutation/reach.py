"""Which tests reach what: the core's functions by a trace, objects of SQL by what a test says.

A traced run of the core's tests is kept in `.medusa/mutation` until the core changes; a file of
tests that changes is run again. A test reaches the SQL that its text names, and that which is named
by what it calls: helpers, and the queries behind methods of a catalog. What SQL uses is found in
its text.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.mutation.sql_text import statements_of, tokens_of

_NAMED = re.compile(r"\bmedusa(?:_api|_market)?\.[a-z_]+")
_CALLED = re.compile(r"\b([a-z]\w*)\(")
_WRITTEN = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(medusa(?:_market)?\.[a-z_]+)", re.I
)
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


def calls_of(paths: Iterable[Path], queries: Collection[str] = ()) -> dict[str, set[str]]:
    """Function or method of these modules, as `name()` -> what its text names and calls.

    Functions of one name are one: which of them a call means is not known. With `queries`, a text
    that is the name of one stands for it.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)
                         and isinstance(n.value, str)}  # fmt: skip
                text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                found[f"{node.name}()"] |= (texts & set(queries)) | said_in(text)
    return found


def said_in(text: str) -> set[str]:
    """Objects of SQL that a text names, as statements of its own do, and what it calls."""
    return set(_NAMED.findall(text)) | {f"{name}()" for name in _CALLED.findall(text)}


def named_in(text: str) -> set[str]:
    """Objects of SQL that a text names."""
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


def turned(uses: Mapping[str, Collection[str]]) -> Mapping[str, Collection[str]]:
    """Object -> what uses it."""
    users: dict[str, set[str]] = defaultdict(set)
    for name, used in uses.items():
        for one in used:
            users[one].add(name)
    return users


def distances(begin: Iterable[str], uses: Mapping[str, Collection[str]]) -> dict[str, int]:
    """What can be reached from these objects, and in how many steps at least."""
    found = dict.fromkeys(begin, 0)
    edge: Sequence[str] = list(found)
    steps = 0
    while edge:
        steps += 1
        edge = [n for name in edge for n in uses.get(name, ()) if n not in found
                and not found.update({n: steps})]  # type: ignore[func-returns-value]  # fmt: skip
    return found
