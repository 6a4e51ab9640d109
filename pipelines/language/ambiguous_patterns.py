"""Regular expressions that take exponential time, found before a job runs.

A matcher that goes back and tries again, as Java's does, tries every way in which a text can be
read. `(a+)+` reads `aaaa` in 2^3 ways, and of 40 characters without a match no step would end. A
pattern is like that if and only if its automaton has a state that is left and reached again by one
word on two different ways (exponential degree of ambiguity: Weber and Seidl, On the degree of
ambiguity of finite automata, 1991, criterion EDA).

States are the places of a pattern where a character is read (Glushkov); what follows what is
counted, because `(a*)*` has one place and two ways from it to itself. Groups that are not gone back
into, and what is looked at ahead, are searched alone; in the pattern around them such a group is
one place. Long counts are shortened, and a wide range of counts is taken for any count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, TypeVar

COPIES_MAX = 8
WIDE = 10
PAIRS_MAX = 40_000
PLACES_MAX = 2_000

Characters = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included, in order."""

Pair = tuple[int, int]
Node = TypeVar("Node", bound=Hashable)

_LAST = 0x10FFFF
_ALL: Characters = ((0, _LAST),)
_BEYOND = (128, _LAST)
_LETTERS: Characters = ((65, 90), (97, 122), _BEYOND)
_DIGITS: Characters = ((48, 57), _BEYOND)
JAVA_CLASSES: Mapping[str, tuple[str, Characters]] = {
    **dict.fromkeys(("Lower", "Upper", "Alpha", "IsLetter", "IsAlphabetic"), ("\ue001", _LETTERS)),
    **dict.fromkeys(("L", "Lu", "Ll", "Lt", "Lm", "Lo", "IsLatin"), ("\ue001", _LETTERS)),
    **dict.fromkeys(("Digit", "IsDigit", "N", "Nd"), ("\ue002", _DIGITS)),
}
"""Java's names of classes -> what stands for it in a pattern for Python, and what is in it."""
ANY_CLASS = ("\ue000", _ALL)
"""The like for all other names."""
_STANDING = {ord(sign): known for sign, known in (*JAVA_CLASSES.values(), ANY_CLASS)}
_BAR = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|\|", re.DOTALL)
_CLASSES: Mapping[str, Characters] = {
    "DIGIT": ((48, 57),),
    "SPACE": ((9, 13), (32, 32)),
    "WORD": ((48, 57), (65, 90), (95, 95), (97, 122)),
}


class _TooLarge(Exception):
    """A pattern has more places than are searched."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Places by which a part begins and ends, in how many ways, and ways to read nothing in it."""

    first: Counter[int]
    last: Counter[int]
    empty: int


@dataclass(slots=True)
class _Automaton:
    """Places of a pattern: what each reads, and in how many ways one follows another."""

    ignores_case: bool
    reads: list[Characters] = field(default_factory=list)
    follows: list[Counter[int]] = field(default_factory=list)
    apart: list[Any] = field(default_factory=list)

    def place(self, characters: Characters) -> _Part:
        """A new place."""
        number = len(self.reads)
        if number == PLACES_MAX:
            raise _TooLarge
        self.reads.append(characters)
        self.follows.append(Counter())
        return _Part(Counter({number: 1}), Counter({number: 1}), 0)

    def sequence(self, nodes: Iterable[Any]) -> _Part:
        """Parts one after the other."""
        whole = _Part(Counter(), Counter(), 1)
        for node in nodes:
            whole = self.joined(whole, self.part(*node))
        return whole

    def joined(self, one: _Part, other: _Part) -> _Part:
        """A part and the next."""
        self.link(one, other)
        return _Part(
            one.first + _times(other.first, one.empty),
            other.last + _times(one.last, other.empty),
            one.empty * other.empty,
        )

    def link(self, one: _Part, other: _Part) -> None:
        """The second part may follow the first."""
        for place, ways in one.last.items():
            self.follows[place] += _times(other.first, ways)

    def part(self, kind: Any, value: Any) -> _Part:
        """What one node of a parsed pattern reads."""
        match str(kind):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "GROUPREF":
                return self.place(self.characters(str(kind), value))
            case "SUBPATTERN":
                return self.sequence(value[-1])
            case "BRANCH":
                parts = [self.sequence(nodes) for nodes in value[1]]
                return _Part(
                    sum((part.first for part in parts), Counter[int]()),
                    sum((part.last for part in parts), Counter[int]()),
                    sum(part.empty for part in parts),
                )
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self.repeated(*value)
            case "ATOMIC_GROUP":
                return self.alone(value, is_optional=False)
            case "POSSESSIVE_REPEAT":
                return self.alone([(parser.MAX_REPEAT, value)], is_optional=value[0] == 0)
            case "ASSERT" | "ASSERT_NOT":
                self.apart.append(value[1])
        return _Part(Counter(), Counter(), 1)

    def alone(self, nodes: Any, *, is_optional: bool) -> _Part:
        """A part that is not gone back into: one place that reads whatever it reads."""
        self.apart.append(nodes)
        inner = _Automaton(self.ignores_case)
        inner.sequence(nodes)
        part = self.place(tuple(sorted(r for reads in inner.reads for r in reads)))
        return _Part(part.first, part.last, int(is_optional))

    def repeated(self, least: int, most: int, nodes: Any) -> _Part:
        """A part that is read several times."""
        is_loop = most - least >= WIDE
        whole = _Part(Counter(), Counter(), 1)
        for _ in range(min(least, COPIES_MAX) - (is_loop and least > 0)):
            whole = self.joined(whole, self.sequence(nodes))
        if is_loop:
            part = self.sequence(nodes)
            self.link(part, part)
            # After the last round a matcher tries another one, which may read nothing.
            last = _times(part.last, 1 + part.empty)
            return self.joined(whole, _Part(part.first, last, part.empty + (least == 0)))
        rest = _Part(Counter(), Counter(), 1)
        for _ in range(min(most - least, COPIES_MAX)):
            rest = self.joined(self.sequence(nodes), rest)
            rest = _Part(rest.first, rest.last, 1 + rest.empty)
        return self.joined(whole, rest)

    def characters(self, kind: str, value: Any) -> Characters:
        """The characters that a place reads."""
        if kind == "IN":
            negated = str(value[0][0]) == "NEGATE"
            ranges = [r for what, of in value[negated:] for r in self.member(str(what), of)]
            found = tuple(sorted(ranges))
            return _others(found) if negated and found != _ALL else found
        if kind in ("ANY", "GROUPREF"):
            return _ALL
        found = tuple(self.member("LITERAL", value))
        return _others(found) if kind == "NOT_LITERAL" else found

    def member(self, kind: str, value: Any) -> Iterator[tuple[int, int]]:
        """Ranges that a member of a class stands for."""
        if kind == "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            known = _CLASSES[name.removeprefix("NOT_")]
            yield from _others(known) if name.startswith("NOT_") else known
            return
        low, high = (value, value) if kind == "LITERAL" else value
        yield from _STANDING.get(low, ((low, high),))
        if self.ignores_case:
            for code in range(max(low, 65), min(high, 122) + 1):
                other = ord(chr(code).swapcase())
                yield other, other

    def overlap(self, one: int, other: int) -> bool:
        """Whether two places read a character in common."""
        return any(a <= d and c <= b for a, b in self.reads[one] for c, d in self.reads[other])


def is_exponential(pattern: str) -> bool:
    """Whether a pattern, as Python's parser reads it, can be read in exponentially many ways.

    True also for a pattern too large to be searched.
    """
    # Else the parser makes a class of `\\d|\\w`, of which Java tries both.
    apart = _BAR.sub(lambda found: found[0] + "(?=)" * (found[0] == "|"), pattern)
    waiting: list[Any] = [parser.parse(apart)]
    while waiting:
        automaton = _Automaton(ignores_case=re.search(r"\(\?[a-z]*i", pattern) is not None)
        try:
            automaton.sequence(waiting.pop())
        except _TooLarge:
            return True
        if _has_two_ways_back(automaton):
            return True
        waiting.extend(automaton.apart)
    return False


def _has_two_ways_back(automaton: _Automaton) -> bool:
    edges = {place: list(after) for place, after in enumerate(automaton.follows)}
    for loop in _components(edges):
        inside = set(loop)
        if any(
            ways > 1
            for place in loop
            for after, ways in automaton.follows[place].items()
            if after in inside
        ):
            return True
        if len(loop) ** 2 > PAIRS_MAX:
            return True
        both: dict[Pair, list[Pair]] = {}
        waiting: list[Pair] = [(place, place) for place in loop]
        while waiting:
            pair = waiting.pop()
            if pair in both:
                continue
            both[pair] = [
                (one, other)
                for one in edges[pair[0]]
                for other in edges[pair[1]]
                if one in inside and other in inside and automaton.overlap(one, other)
            ]
            waiting.extend(both[pair])
        for component in _components(both):
            same = [one == other for one, other in component]
            if any(same) and not all(same):
                return True
    return False


def _components(edges: Mapping[Node, Iterable[Node]]) -> Iterator[list[Node]]:
    """Strongly connected components (Tarjan, 1972, without recursion)."""
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    stack: list[Node] = []
    is_open: set[Node] = set()
    for root in edges:
        if root in number:
            continue
        path = [(root, iter(edges[root]))]
        number[root] = lowest[root] = len(number)
        stack.append(root)
        is_open.add(root)
        while path:
            node, following = path[-1]
            for after in following:
                if after not in number:
                    number[after] = lowest[after] = len(number)
                    stack.append(after)
                    is_open.add(after)
                    path.append((after, iter(edges[after])))
                    break
                if after in is_open:
                    lowest[node] = min(lowest[node], number[after])
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    lowest[before] = min(lowest[before], lowest[node])
                if lowest[node] == number[node]:
                    place = stack.index(node)
                    component, stack[place:] = stack[place:], []
                    is_open.difference_update(component)
                    yield component


def _times(ways: Counter[int], factor: int) -> Counter[int]:
    return Counter({place: number * factor for place, number in ways.items() if factor})


def _others(ranges: Characters) -> Characters:
    """All characters that are in none of the ranges."""
    found, at = [], 0
    for low, high in ranges:
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    return (*found, (at, _LAST)) if at <= _LAST else tuple(found)
