"""The rooms of `pipelines/` and their levels: the one table behind the tests, README and docs.

A room is a folder of `pipelines/`; its sentence is the first line of its `__init__.py`. A module
imports from its own room and from rooms on lower levels, and from nothing else of `pipelines/`.

    python -m tests.layout.rooms            prints the size of each room
    python -m tests.layout.rooms --write    brings README.md and docs/architecture.md up to date
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LEVELS = (
    ("base", "language"),
    ("catalog",),
    ("homes", "storage"),
    ("changes", "datasource", "exchange", "sources", "spark"),
    ("platform", "sharing", "sinks"),
    ("contracts",),
    ("market",),
    ("participant",),
    ("quality", "report", "simulation", "watching"),
    ("operations",),
    ("cli", "pages"),
    ("airflow",),
)
"""From the ground up; below all of them is `medusa_core`, above all of them are the DAGs."""

LEVEL = {room: level for level, rooms in enumerate(LEVELS, start=1) for room in rooms}


@dataclass(frozen=True, slots=True)
class Import:
    """One module of `pipelines` names another, and on which line."""

    module: str
    target: str
    line: int

    @property
    def rooms(self) -> tuple[str, str]:
        """The room that imports, and the room that is imported from."""
        return room_of(self.module), room_of(self.target)


def room_of(module: str) -> str:
    """`spark` of `pipelines.spark.step`; nothing for `pipelines` itself."""
    return module.split(".")[1] if "." in module else ""


@cache
def modules() -> dict[str, Path]:
    """Module -> file, of everything in `pipelines`; templates are text, not modules."""
    found = {}
    for path in sorted((ROOT / "pipelines").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "templates" not in parts:
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    """A module's syntax tree, read once."""
    gc.disable()  # nothing in it is garbage, and looking for some takes as long as reading it
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module's syntax tree, found once."""
    return tuple(ast.walk(tree_of(path)))


def imports_of(module: str, nodes: Iterable[ast.AST]) -> Iterator[Import]:
    """Every import of `pipelines`, wherever it is written, and `import_module` with a text."""
    for node in nodes:
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [name if name in modules() else node.module or "" for name in names]
        elif isinstance(node, ast.Call) and _imports_by_name(node.func) and node.args:
            targets = [_beginning(node.args[0])]
        for target in dict.fromkeys(targets):
            if target == "pipelines" or target.startswith("pipelines."):
                yield Import(module, target, node.lineno)


def _imports_by_name(function: ast.expr) -> bool:
    name = getattr(function, "attr", getattr(function, "id", ""))
    return name in ("import_module", "__import__")


def _beginning(argument: ast.expr) -> str:
    """A text, or what stands before the first value of an f-string."""
    if isinstance(argument, ast.JoinedStr) and argument.values:
        argument = argument.values[0]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value.rstrip(".")
    return ""


@cache
def imports() -> tuple[Import, ...]:
    """All imports between modules of `pipelines`."""
    return tuple(
        one for name, path in modules().items() for one in imports_of(name, nodes_of(path))
    )


def sentence_of(path: Path) -> str:
    """The first line of a package's docstring."""
    return (ast.get_docstring(tree_of(path / "__init__.py")) or "").split("\n")[0]


# What is made from the table.


def picture() -> str:
    """The levels of `docs/architecture.md`: what is imported from lies below."""
    lines = ["       dags"]
    lines += [
        f"  {level:2}   {'   '.join(rooms)}"
        for level, rooms in reversed([*enumerate(LEVELS, start=1)])
    ]
    lines += ["   0   medusa_core"]
    rooms = [f"- `medusa_core`: {_lowered(sentence_of(ROOT / 'medusa_core'))}"]
    rooms += [
        f"- `pipelines/{room}`: {_lowered(sentence_of(ROOT / 'pipelines' / room))}"
        for level in LEVELS
        for room in level
    ]
    return "\n".join([*(f"    {line}" for line in lines), "", *rooms])


def overview() -> str:
    """The folders of the README, each with its sentence."""
    folders = [("medusa_core", sentence_of(ROOT / "medusa_core"))]
    folders += [
        (f"pipelines/{room}", sentence_of(ROOT / "pipelines" / room))
        for level in LEVELS
        for room in level
    ]
    folders += [
        ("dags", "Airflow's DAGs: what follows what."),
        ("contracts", "A folder for each owner: what it runs, as YAML for `medusa apply`."),
        ("sql", "The catalog's schema and its queries, as SQL."),
        ("tests, docs, bench", "Tests by room, documentation, comparisons with other systems."),
    ]
    width = max(len(name) for name, _ in folders)
    return "\n".join(f"    {name:{width}}  {sentence}" for name, sentence in folders)


def _lowered(sentence: str) -> str:
    first = sentence.split(" ")[0]
    is_name = first.startswith("`") or first[1:] != first[1:].lower() or first in _NAMES
    return sentence if is_name else sentence[:1].lower() + sentence[1:]


_NAMES = ("Airflow's", "HTML", "Spark")

PLACES = {"docs/architecture.md": picture, "README.md": overview}
"""Page -> what its part about the rooms is made by."""


_PART = re.compile(r"(?<=<!-- rooms -->\n\n).*?(?=\n\n<!-- /rooms -->)", re.DOTALL)


def part_of(page: str) -> str:
    """What a page says of the rooms: the text between `<!-- rooms -->` and `<!-- /rooms -->`."""
    found = _PART.findall(page)
    assert len(found) == 1, "the page needs <!-- rooms --> and <!-- /rooms -->, once"
    return str(found[0])


def with_part(page: str, part: str) -> str:
    """The page with another part about the rooms."""
    part_of(page)
    return _PART.sub(lambda _: part, page)


def figures() -> str:
    """Files and lines of each room, and how many arrows there are between rooms."""
    arrows = {one.rooms for one in imports() if one.rooms[0] != one.rooms[1]}
    lines = [f"{len(LEVEL)} rooms, {len(arrows)} arrows, {len(LEVELS)} levels"]
    for room, level in LEVEL.items():
        paths = [path for name, path in modules().items() if room_of(name) == room]
        size = sum(len(path.read_text().splitlines()) for path in paths)
        lines.append(f"{level:2}  {room:12} {len(paths):4} files {size:6} lines")
    return "\n".join(lines)


def main(words: list[str]) -> None:
    """Print the figures, or write what is made from the table."""
    if words == ["--write"]:
        for file, made in PLACES.items():
            path = ROOT / file
            path.write_text(with_part(path.read_text(), made()))
    else:
        print(figures())


if __name__ == "__main__":
    main(sys.argv[1:])
