"""Interfaces are small: protocols of at most 15 calls, constructors of at most 9 arguments.

A frozen dataclass is a record, whose fields are its meaning, and may have more of them. So may
what has no calls of its own. A service, which does something, may not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.layout.rooms import modules, nodes_of, room_of

CALLS_MAX = 15
ARGUMENTS_MAX = 9

SUMS = {"Catalog", "Agreements"}
"""Sums of roles, which name what one database offers; whoever uses it names roles."""

SERVICES = {
    "Member": "what the lander knows of a stream of its feed",
    "RunFigures": "counters of a run of the simulator",
    "SimulatedHome": "a home's state in the simulator",
    "_Cell": "a cell of a drawing, placed field by field",
}
"""Mutable dataclasses of state with more fields. Entries are removed, never added."""


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module, path in modules().items():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                yield module, node


def bases_of(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0] for base in node.bases]


def protocols() -> dict[str, ast.ClassDef]:
    return {node.name: node for _, node in classes() if "Protocol" in bases_of(node)}


def calls_of(name: str, known: dict[str, ast.ClassDef]) -> set[str]:
    """The calls of a protocol, those of its bases among them."""
    if name not in known:
        return set()
    own = {f.name for f in known[name].body if isinstance(f, ast.FunctionDef)}
    return own.union(*(calls_of(base, known) for base in bases_of(known[name])))


def arguments_of(node: ast.ClassDef) -> int:
    """How many arguments a class is made of: a service's, or a mutable dataclass' with calls."""
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            given = function.args
            return len(given.posonlyargs + given.args + given.kwonlyargs) - 1
    decorators = [ast.unparse(d) for d in node.decorator_list]
    is_state = any("dataclass" in d and "frozen=True" not in d for d in decorators)
    has_calls = any(isinstance(f, ast.FunctionDef) for f in node.body)
    if not (is_state and has_calls):
        return 0
    fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
    given = [f for f in fields if not ast.unparse(f.target).startswith("_")]
    return sum("init=False" not in ast.unparse(f) for f in given)


def test_a_protocol_has_at_most_15_calls() -> None:
    known = protocols()
    wide = {name: len(calls_of(name, known)) for name in known.keys() - SUMS}
    assert {name: n for name, n in wide.items() if n > CALLS_MAX} == {}
    assert all(bases_of(known[name])[-1] == "Protocol" for name in SUMS)
    own = {n: sum(isinstance(f, ast.FunctionDef) for f in known[n].body) for n in SUMS}
    assert max(own.values()) <= 5, own


def test_a_service_is_made_of_at_most_9_arguments() -> None:
    wide = {node.name: n for _, node in classes() if (n := arguments_of(node)) > ARGUMENTS_MAX}
    assert wide.keys() == SERVICES.keys(), wide


def test_the_sum_of_the_catalogs_roles_is_named_where_it_is_defined_alone() -> None:
    named = {
        module
        for module, path in modules().items()
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        and node.module == "pipelines.catalog.interface"
        and any(alias.name == "Catalog" for alias in node.names)
    }
    assert named == {"pipelines.catalog.postgres.postgres_catalog"}


def test_nothing_is_passed_off_as_another_type() -> None:
    """No `typing.cast`, and no class that answers to every name: a proxy implements its roles."""
    found = []
    for module, path in modules().items():
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.module == "typing":
                found += [f"{module}: cast" for alias in node.names if alias.name == "cast"]
            is_proxy = isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
            if is_proxy and room_of(module) != "cli":  # a stream of text passes the rest on
                found.append(f"{module} (line {node.lineno}): __getattr__")
    assert found == []


SOURCE = """
class Narrow(Protocol):
    def one(self): ...

class Wide(Narrow, Protocol):
    def two(self): ...

class Service:
    def __init__(self, a, *, b, c=None): ...

@dataclass(slots=True)
class State:
    a: int
    b: int = field(init=False)

    def call(self): ...

@dataclass(frozen=True)
class Record:
    a: int
"""


@pytest.mark.parametrize(("name", "arguments"), [("Service", 3), ("State", 1), ("Record", 0)])
def test_arguments_are_counted(name: str, arguments: int) -> None:
    found = {n.name: n for n in ast.parse(SOURCE).body if isinstance(n, ast.ClassDef)}
    assert arguments_of(found[name]) == arguments


def test_calls_of_bases_are_counted() -> None:
    found = {n.name: n for n in ast.parse(SOURCE).body if isinstance(n, ast.ClassDef)}
    assert calls_of("Wide", found) == {"one", "two"}
