"""Mutants of Python: comparisons, conditions, constants, and what a function returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

from tests.mutation.mutants import Edit, Mutant, named

ROOM = "medusa_core"
_OPERATOR = re.compile(r"<=|>=|==|!=|<|>|\bnot\s+in\b|\bis\s+not\b|\bin\b|\bis\b")
_OTHER = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"),
               ast.FloorDiv: ("//", "*")}  # fmt: skip
_SKIPPED = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
"""Not mutated within: texts for people, and assertions, which are no decisions."""


def python_mutants(root: Path, room: str = ROOM) -> list[Mutant]:
    """All mutants of a package, in order of files."""
    return [
        mutant
        for path in sorted((root / room).rglob("*.py"))
        for mutant in mutants_of(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    ]


def mutants_of(source: str, path: str) -> list[Mutant]:
    """All mutants of one file."""
    return list(named(_Finder(source, path).found()))


class _Finder:
    def __init__(self, source: str, path: str) -> None:
        self._source, self._path = source, path
        lines = source.splitlines(keepends=True)
        self._lines = lines
        self._starts = [0, *accumulate(len(line) for line in lines)]

    def found(self) -> Iterator[Mutant]:
        yield from self._of(ast.parse(self._source), "module")

    def _of(self, node: ast.AST, where: str) -> Iterator[Mutant]:
        if isinstance(node, _SKIPPED):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        for start, end, text, kind in self._changes(node):
            yield Mutant(
                room=ROOM,
                path=self._path,
                where=where,
                kind=kind,
                line=self._source.count("\n", 0, start) + 1,
                before=self._context(start, end),
                after=self._context(start, end, text),
                edits=(Edit(start, end, text),),
            )
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._of(child, self._name_of(node, name, where))

    @staticmethod
    def _name_of(node: ast.AST, part: str, where: str) -> str:
        """Where the parts of a node are: the body of a function is in it, its defaults are not."""
        if part == "body" and isinstance(node, ast.FunctionDef | ast.ClassDef):
            return node.name if where == "module" else f"{where}.{node.name}"
        return where

    def _changes(self, node: ast.AST) -> Iterator[tuple[int, int, str, str]]:
        match node:
            case ast.Compare(left=left, comparators=comparators):
                for one, other in pairwise([left, *comparators]):
                    yield from self._compare(self._span(one)[1], self._span(other)[0])
            case ast.BoolOp(op=op, values=values):
                word, neutral = ("and", "True") if isinstance(op, ast.And) else ("or", "False")
                other = "or" if word == "and" else "and"
                for one, next_ in pairwise(values):
                    yield from self._word(self._span(one)[1], self._span(next_)[0], word, other)
                for value in values:
                    yield (*self._span(value), neutral, "dropped")
            case ast.UnaryOp(op=ast.Not()):
                begin, _ = self._span(node)
                yield (begin, begin + len("not"), "", "not")
            case ast.If(test=test) | ast.IfExp(test=test):
                for text in ("True", "False"):
                    yield (*self._span(test), text, "condition")
            case ast.While(test=test) if not isinstance(test, ast.Constant):
                yield (*self._span(test), "False", "condition")
            case ast.comprehension(ifs=ifs):
                for test in ifs:
                    yield (*self._span(test), "True", "filter")
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                for text in (str(number + 1), f"({number - 1})"):
                    yield (*self._span(node), text, "constant")
            case ast.Call(func=ast.Name(id=name)) if name in _TWINS:
                yield (*self._span(node.func), _TWINS[name], "twin")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                sign, text = _ARITHMETIC[type(op)]
                begin, end = self._span(left)[1], self._span(right)[0]
                at = self._source.index(sign, begin, end)
                yield (at, at + len(sign), text, "arithmetic")
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield (*self._span(value), "None", "returned")

    def _compare(self, begin: int, end: int) -> Iterator[tuple[int, int, str, str]]:
        found = _OPERATOR.search(self._source, begin, end)
        assert found is not None, self._source[begin:end]
        operator = " ".join(found.group().split())
        yield (*found.span(), _OTHER[operator], "comparison")

    def _word(
        self, begin: int, end: int, word: str, other: str
    ) -> Iterator[tuple[int, int, str, str]]:
        found = re.compile(rf"\b{word}\b").search(self._source, begin, end)
        assert found is not None
        yield (*found.span(), other, "and/or")

    def _context(self, start: int, end: int, text: str | None = None) -> str:
        """The line or lines of a place, as they are or changed: what its id is made of."""
        begin = self._source.rfind("\n", 0, start) + 1
        stop = self._source.find("\n", end)
        stop = len(self._source) if stop < 0 else stop
        middle = self._source[start:end] if text is None else text
        return self._source[begin:start] + middle + self._source[end:stop]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        end_line, end_column = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self._at(line, column), self._at(end_line, end_column)

    def _at(self, line: int, column: int) -> int:
        """A place in the text; columns count bytes."""
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)
