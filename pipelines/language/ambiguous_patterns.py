"""Regular expressions that take exponential time, found before a job runs.

A matcher that goes back and tries again, as Java's does, tries every way in which a text can be
read. `(a+)+` reads `aaaa` in 2^3 ways, and of 40 characters without a match no step would end. A
pattern is like that if and only if its automaton has a state that is left and reached again by one
word on two different ways (exponential degree of ambiguity: Weber and Seidl, On the degree of
ambiguity of finite automata, 1991, criterion EDA).

States are the places of a pattern where a character is read (Glushkov); what follows what is
counted, because `(a*)*` has one place and two ways from it to itself. What is looked at ahead is
searched alone. What is not known exactly counts as more: a wide range of counts is any count, an
earlier group that is repeated by its number is any text, and a group that is not gone back into is
one that is, unless it repeats one class of characters (`a++`), which takes all of them.

A pattern is itself the text of a partner, so the search is limited, too; a pattern for which it
would take longer is refused.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, TypeVar

from pipelines.language.character_ranges import Characters, have_common, merged, without

WIDE = 10
PAIRS_MAX = 40_000
PLACES_MAX = 2_000
BUDGET_MAX = 1_000_000
NODE_COST = 20
"""Links, ranges and pairs of edges that are looked at for one pattern, and what a node counts for:
about a second."""

Paths = dict[int, int]
"""Places, and in how many ways: 2 stands for any number above 1."""

Pair = tuple[int, int]
Node = TypeVar("Node", bound=Hashable)

_LAST = 0x10FFFF
_ALL: Characters = ((0, _LAST),)
_BEYOND = (128, _LAST)
_ALPHABETIC: Characters = ((65, 90), (97, 122), _BEYOND)
_DIGITS: Characters = ((48, 57), _BEYOND)
_LINE_ENDS: Characters = ((10, 10), (13, 13), (0x85, 0x85), (0x2028, 0x2029))
"""What `.` does not read in Java."""
JAVA_CLASSES: Mapping[str, tuple[str, Characters]] = {
    **dict.fromkeys(
        ("Lower", "Upper", "Alpha", "IsLetter", "IsAlphabetic"), ("\ue001", _ALPHABETIC)
    ),
    **dict.fromkeys(("L", "Lu", "Ll", "Lt", "Lm", "Lo", "IsLatin"), ("\ue001", _ALPHABETIC)),
    **dict.fromkeys(("Digit", "IsDigit", "N", "Nd"), ("\ue002", _DIGITS)),
}
"""Java's names of classes -> what stands for it in a pattern for Python, and all it may read."""
ANY_CLASS = ("\ue000", _ALL)
"""The like for all other names."""
_SIGNS = {ord(sign): known for sign, known in (*JAVA_CLASSES.values(), ANY_CLASS)}
_BAR = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|\|", re.DOTALL)
_CLASSES: Mapping[str, Characters] = {
    "DIGIT": ((48, 57),),
    "SPACE": ((9, 13), (32, 32)),
    "WORD": ((48, 57), (65, 90), (95, 95), (97, 122)),
}


class _TooLarge(Exception):
    """A pattern has more places, or takes more work, than is searched."""


@dataclass(slots=True)
class _Budget:
    """What may still be spent on one pattern."""

    left: int = BUDGET_MAX

    def spend(self, amount: int) -> None:
        """Raise _TooLarge if so much is not left."""
        self.left -= amount
        if self.left < 0:
            raise _TooLarge


@dataclass(frozen=True, slots=True)
class _Part:
    """Places by which a part begins and ends, in how many ways, and ways to read nothing in it."""

    first: Paths
    last: Paths
    empty: int


@dataclass(frozen=True, slots=True)
class _Flags:
    """What the flags of a pattern change, wherever in it they are written."""

    may_ignore_case: bool
    ignores_case: bool
    dot_reads_all: bool

    @classmethod
    def of(cls, pattern: str) -> _Flags:
        """The flags of a pattern."""
        return cls(
            may_ignore_case=re.search(r"\(\?[a-z]*i", pattern) is not None,
            # Without a colon they count for all of it, unless a part takes one back.
            ignores_case=re.match(r"\(\?[ms]*i[ms]*\)(?!.*\(\?[a-z]*-)", pattern, re.DOTALL)
            is not None,
            dot_reads_all=re.search(r"\(\?[a-z]*s", pattern) is not None,
        )


@dataclass(slots=True)
class _Automaton:
    """Places of a pattern: what each reads, and in how many ways one follows another.

    `takes_all`: places that read on as long as they can, and are not gone back into.
    """

    flags: _Flags
    budget: _Budget
    reads: list[Characters] = field(default_factory=list)
    follows: list[Paths] = field(default_factory=list)
    takes_all: set[int] = field(default_factory=set)
    apart: list[Any] = field(default_factory=list)
    overlaps: dict[tuple[Pair, Pair], bool] = field(default_factory=dict)

    def place(self, characters: Characters) -> _Part:
        """A new place."""
        number = len(self.reads)
        if number == PLACES_MAX:
            raise _TooLarge
        self.reads.append(characters)
        self.follows.append({})
        return _Part({number: 1}, {number: 1}, 0)

    def sequence(self, nodes: Iterable[Any]) -> _Part:
        """Parts one after the other."""
        whole = _NOTHING
        for node in nodes:
            whole = self.joined(whole, self.part(*node))
        return whole

    def joined(self, one: _Part, other: _Part) -> _Part:
        """A part and the next."""
        self.link(one, other)
        self.budget.spend(len(one.first) + len(other.last))
        return _Part(
            _sum(one.first, _times(other.first, one.empty)),
            _sum(other.last, _times(one.last, other.empty)),
            _few(one.empty * other.empty),
        )

    def link(self, one: _Part, other: _Part) -> None:
        """The second part may follow the first."""
        self.budget.spend(len(one.last) * len(other.first))
        for place, paths in one.last.items():
            for after, more in other.first.items():
                # A place that takes all it can leaves nothing for one that reads no more than it.
                if place in self.takes_all and not without(self.reads[after], self.reads[place]):
                    continue
                follows = self.follows[place]
                follows[after] = _few(follows.get(after, 0) + paths * more)

    def part(self, kind: Any, value: Any) -> _Part:
        """What one node of a parsed pattern reads."""
        self.budget.spend(NODE_COST)
        match str(kind):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self.place(self.characters(str(kind), value))
            case "GROUPREF":
                part = self.place(_ALL)
                self.link(part, part)
                return _Part(part.first, part.last, 1)
            case "SUBPATTERN":
                return self.sequence(value[-1])
            case "BRANCH":
                whole = _Part({}, {}, 0)
                for nodes in value[1]:
                    part = self.sequence(nodes)
                    first, last = _sum(whole.first, part.first), _sum(whole.last, part.last)
                    self.budget.spend(len(first) + len(last))
                    whole = _Part(first, last, _few(whole.empty + part.empty))
                return whole
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self.repeated(*value)
            case "ATOMIC_GROUP":
                return self.alone(value)
            case "POSSESSIVE_REPEAT":
                return self.alone([(parser.MAX_REPEAT, value)])
            case "ASSERT" | "ASSERT_NOT":
                self.apart.append(value[1])
        return _NOTHING

    def alone(self, nodes: Any) -> _Part:
        """A part that is not gone back into."""
        if len(nodes) == 1 and nodes[0][0] is parser.MAX_REPEAT:
            least, most, repeated = nodes[0][1]
            if least <= 1 and most is parser.MAXREPEAT and self.is_exact(repeated):
                part = self.sequence(repeated)
                self.link(part, part)
                self.takes_all.update(part.last)
                return _Part(part.first, part.last, int(least == 0))
        return self.sequence(nodes)

    def is_exact(self, nodes: Any) -> bool:
        """Whether it is one place of which is known exactly what it reads."""
        if len(nodes) != 1 or self.flags.may_ignore_case:
            return False
        kind, value = str(nodes[0][0]), nodes[0][1]
        members = value if kind == "IN" else [(kind, value)]
        known = {"LITERAL", "NOT_LITERAL", "CATEGORY", "RANGE", "NEGATE"}
        return all(
            str(what) in known and (of[0] if isinstance(of, tuple) else of) not in _SIGNS
            for what, of in members
        )

    def repeated(self, least: int, most: int, nodes: Any) -> _Part:
        """A part that is read several times."""
        is_loop = most - least >= WIDE
        whole = _NOTHING
        for _ in range(least - (is_loop and least > 0)):
            whole = self.joined(whole, self.sequence(nodes))
        if is_loop:
            part = self.sequence(nodes)
            self.link(part, part)
            # After the last round a matcher tries another one, which may read nothing.
            last = _times(part.last, 1 + part.empty)
            return self.joined(whole, _Part(part.first, last, _few(part.empty + (least == 0))))
        rest = _NOTHING
        for _ in range(most - least):
            rest = self.joined(self.sequence(nodes), rest)
            rest = _Part(rest.first, rest.last, _few(1 + rest.empty))
        return self.joined(whole, rest)

    def characters(self, kind: str, value: Any) -> Characters:
        """The characters that a place reads, at least."""
        if kind == "ANY":
            return _ALL if self.flags.dot_reads_all else without(_ALL, _LINE_ENDS)
        members = [("LITERAL", value)] if kind != "IN" else [(str(what), of) for what, of in value]
        negated = kind == "NOT_LITERAL" or members[0][0] == "NEGATE"
        ranges = [r for what, of in members for r in self.member(what, of, negated=negated)]
        self.budget.spend(len(ranges))
        found = merged(ranges)
        return without(_ALL, found) if negated else found

    def member(self, kind: str, value: Any, *, negated: bool) -> Iterator[tuple[int, int]]:
        """Ranges that a member of a class stands for; where it is negated, those alone that it has
        for certain."""
        if kind == "NEGATE":
            return
        if kind == "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            known = _CLASSES[name.removeprefix("NOT_")]
            yield from without(_ALL, known) if name.startswith("NOT_") else known
            return
        low, high = (value, value) if kind == "LITERAL" else value
        if low not in _SIGNS:
            yield low, high
        elif not negated:
            yield from _SIGNS[low]
        if self.flags.ignores_case if negated else self.flags.may_ignore_case:
            for code in range(max(low, 65), min(high, 122) + 1):
                other = ord(chr(code).swapcase())
                yield other, other

    def overlap(self, one: Pair, other: Pair) -> bool:
        """Whether two edges read a character in common."""
        edges = (one, other)
        if edges not in self.overlaps:
            reads, others = self.read_by(*one), self.read_by(*other)
            self.budget.spend(len(reads) + len(others))
            self.overlaps[edges] = have_common(reads, others)
        return self.overlaps[edges]

    def read_by(self, place: int, after: int) -> Characters:
        """The characters by which one place follows another."""
        if place in self.takes_all and place != after:
            return without(self.reads[after], self.reads[place])
        return self.reads[after]


_NOTHING = _Part({}, {}, 1)


def is_exponential(pattern: str) -> bool:
    """Whether a pattern, as Python's parser reads it, can be read in exponentially many ways.

    True also for a pattern too large to be searched.
    """
    # Else the parser makes a class of `\\d|\\w`, of which Java tries both.
    apart = _BAR.sub(lambda found: found[0] + "(?=)" * (found[0] == "|"), pattern)
    flags, budget = _Flags.of(pattern), _Budget()
    try:
        waiting: list[Any] = [parser.parse(apart)]
        while waiting:
            automaton = _Automaton(flags, budget)
            automaton.sequence(waiting.pop())
            if _is_ambiguous(automaton):
                return True
            waiting.extend(automaton.apart)
    except (_TooLarge, RecursionError):
        return True
    return False


def _is_ambiguous(automaton: _Automaton) -> bool:
    edges = {place: list(after) for place, after in enumerate(automaton.follows)}
    for loop in _components(edges):
        inside = set(loop)
        within = {place: [after for after in edges[place] if after in inside] for place in loop}
        if any(automaton.follows[at][after] > 1 for at in loop for after in within[at]):
            return True
        if len(loop) ** 2 > PAIRS_MAX:
            return True
        both: dict[Pair, list[Pair]] = {}
        waiting: list[Pair] = [(place, place) for place in loop]
        while waiting:
            pair = waiting.pop()
            if pair in both:
                continue
            left, right = pair
            automaton.budget.spend(len(within[left]) * len(within[right]))
            both[pair] = [
                (one, other)
                for one in within[left]
                for other in within[right]
                if automaton.overlap((left, one), (right, other))
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
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    is_open.difference_update(component)
                    yield component


def _few(number: int) -> int:
    return min(number, 2)


def _times(paths: Paths, factor: int) -> Paths:
    return {place: _few(number * factor) for place, number in paths.items()} if factor else {}


def _sum(one: Paths, other: Paths) -> Paths:
    found = dict(one)
    for place, number in other.items():
        found[place] = _few(found.get(place, 0) + number)
    return found
