"""Regular expressions that may take exponential time are refused, and no others that people write.

The oracle counts the ways to read a text by derivatives of expressions (Antimirov, 1996); it has
no automaton.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.language.ambiguous_patterns import is_exponential
from pipelines.language.constants import complaint
from pipelines.language.expressions import compile_predicate
from pipelines.language.functions import SCALARS
from tests.sweeps import examples, long_but

EXPONENTIAL = [
    "(a+)+",
    "(a*)*",
    "((a*)?)*",
    "((a?)?b)*",
    "((a?)*b)*",
    "(a|a)*b",
    "(a|aa)+$",
    "(a|b|ab)*c",
    "(.*)*",
    "(?:[a-z]+)*\\d",
    "(\\d{1,3})+",
    "(\\d|\\w)*x",
    "(\\w+\\s?)+",
    "(\\s*\\w+\\s*)*",
    "(x+x+)+y",
    "(.*a){20,}",
    "(a{1,100}){1,100}",
    "(?i)(a|A)*",
    "(?=(a+)+b)x",
    "(?>(a+)+b)",
    "(?<all>a+)+",
    "(a+?)+?b",
    "(\\p{Alpha}+-?)*x",
    "(\\P{Lu}+x)*y",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@)",
    "((((((((((a{8}){8}){8}){8}){8}){8}){8}){8}){8}){8})*",
    "([^\\p{Lu}]|a)*x",
    "([^\\p{Alpha}]|é)*x",
    "([^\\P{Lu}a]|B)*x",
    "(?:[^a]b|Ab)*(?i:x)",
    "(?:(?:(?s:.)|\\n)b)*",
    "(b?)(?:\\1ca|ca)*x",
    "(?:(?>ab)c|abc)*x",
    "(?:a++b|aab)*x",
    "(?:\\p{Lu}++b|(?:é|A)b)*x",
    "(?:a{20}b|a{9}a{11}b)*x",
]
SEARCH_S_MAX = 20
"""It takes a second; without a limit these take minutes to years."""
SLOW_TO_SEARCH = {
    "counts of nothing in counts": "(?:" * 9 + "(?=)" + "){8}" * 9,
    "counts in counts": "(?:" * 20 + "a" + "){1000}" * 20,
    "a thousand options": "(?:a?){1000}",
    "all options of one character": f"(?:a{'a?' * 150})*",
    "options that share no character": f"(?:a{'?'.join(map(chr, range(0x4000, 0x4096)))}?)*",
    "large classes": f"(?:[{''.join(chr(0x4000 + 2 * at) for at in range(2_500))}]{{150}})*",
    "very many groups in groups": "(" * 400 + "a" + ")*" * 400,
}
HARMLESS = [
    "",
    "a+",
    "(a|b)*c",
    "(a?)*b",
    "(a?b)*",
    "(a*b)*",
    "(ab?c?)*",
    "((a|b)(c|d))*",
    "(a|b|[|])*",
    "a{0,500}",
    ".*foo.*bar.*",
    "(foo|bar)+baz",
    "(?i)(error|warn)+",
    "(\\d{1,3}\\.){3}\\d{1,3}",
    "([0-9a-f]{2})+",
    "([0-9a-f]{64})+",
    '(?:[^,"]|"[^"]*")*',
    "(\\w{1,63}\\.)+com",
    "(\\w+,\\s*)*\\w+",
    "(\\p{Alpha}+-)*x",
    "(?>a+)+b",
    "(a++b?)*",
    "^[^@]+@[^@]+$",
    "^(GET|POST) (/[^ ?]*)(\\?\\S*)? HTTP/1\\.[01]$",
    "\\b(\\d{2}:){2}\\d{2}\\b",
    "(.|\\n)*",
    "(?:[^\\n]|\\n)*x",
    "(?i)([^a]|a)*",
    '(?i)"(?:[^"\\\\]|\\\\.)*"',
    "(['\"]).*\\1",
    "(?>[^,]*+,)*x",
    "((\\w{20})-)*x",
]


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_a_pattern_that_may_take_exponential_time_is_refused(pattern: str) -> None:
    assert "may take exponential time" in (complaint("pattern", pattern) or "")


@pytest.mark.parametrize("pattern", long_but(3, SLOW_TO_SEARCH.values()), ids=SLOW_TO_SEARCH)
def test_a_pattern_that_would_take_long_to_search_is_refused_soon(pattern: str) -> None:
    began_s = time.process_time()
    assert "may take exponential time" in (complaint("pattern", pattern) or "")
    assert time.process_time() - began_s < SEARCH_S_MAX


def test_a_group_by_its_number_is_not_taken_for_a_character_by_its_number() -> None:
    assert "Java does not read as Python does" in (complaint("pattern", "(b?)(\\101a|01a)*x") or "")


CALLS = [
    "s RLIKE '{}'",
    "s REGEXP '{}'",
    "rlike(s, '{}')",
    "regexp(s, '{}')",
    "regexp_like(s, '{}')",
    "split(s, '{}')[0] = 'x'",
    "regexp_extract(s, '{}', 0) = 'x'",
    "regexp_replace(s, '{}', 'y') = 'x'",
    "regexp_count(s, '{}') = 1",
    "regexp_instr(s, '{}') = 1",
]


def compile_condition(text: str) -> None:
    compile_predicate(text, {"s": Column("s", "string")}, where="filter f of network n")


@pytest.mark.parametrize("call", CALLS)
def test_no_call_passes_such_a_pattern_on(call: str) -> None:
    compile_condition(call.format("(a|b)+"))
    with pytest.raises(Refused, match="may take exponential time"):
        compile_condition(call.format("(a+)+"))


def test_each_function_that_takes_a_pattern_is_among_these_calls() -> None:
    taking = {name for name, function in SCALARS.items() if "pattern" in function.takes}
    assert taking <= {call.partition("(")[0] for call in CALLS}


@pytest.mark.parametrize("pattern", HARMLESS)
def test_a_pattern_that_reads_a_text_in_few_ways_is_taken(pattern: str) -> None:
    assert complaint("pattern", pattern) is None


Node = tuple[object, ...]
"""A small expression: ("",) reads nothing; ("a",) a letter; ("." or "|", x, y); ("*" or "?", x)."""

LEAVES_MAX = 5
TIMES = 16
SHARE_MIN = 2**10
"""Twice the repetitions multiply the ways by so much; by some 2^5 at most in a polynomial."""


def nodes() -> st.SearchStrategy[Node]:
    leaf = st.sampled_from([("a",), ("b",)])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from([".", "|"]), inner, inner),
            st.tuples(st.sampled_from(["*", "?"]), inner),
        ),
        max_leaves=LEAVES_MAX,
    )


def written(node: Node) -> str:
    match node:
        case (".", one, other):
            return f"{written(one)}{written(other)}"
        case ("|", one, other):
            return f"(?:{written(one)}|{written(other)})"
        case ("*" | "?" as sign, inner):
            return f"(?:{written(inner)}){sign}"
    return str(node[0])


@cache
def ways_to_read_nothing(node: Node) -> int:
    match node:
        case (".", one, other):
            return ways_to_read_nothing(one) * ways_to_read_nothing(other)
        case ("|", one, other):
            return ways_to_read_nothing(one) + ways_to_read_nothing(other)
        case ("*" | "?", inner):
            return 1 + ways_to_read_nothing(inner)
    return int(node == ("",))


@cache
def after(node: Node, letter: str) -> Counter[Node]:
    """What is left to read after a letter -> ways to get there."""
    match node:
        case (".", one, other):
            left = Counter[Node]()
            for rest, ways in after(one, letter).items():
                left[other if rest == ("",) else (".", rest, other)] += ways
            for rest, ways in after(other, letter).items():
                left[rest] += ways * ways_to_read_nothing(one)
            return +left
        case ("|", one, other):
            return after(one, letter) + after(other, letter)
        case ("*", inner):
            return Counter(
                {
                    (node if rest == ("",) else (".", rest, node)): ways
                    for rest, ways in after(inner, letter).items()
                }
            )
        case ("?", inner):
            return after(inner, letter)
    return Counter([("",)]) if node == (letter,) else Counter()


def ways(node: Node, text: str) -> int:
    """In how many ways a text is read, to wherever it comes."""
    states = Counter([node])
    for letter in text:
        following = Counter[Node]()
        for state, number in states.items():
            for rest, more in after(state, letter).items():
                following[rest] += number * more
        states = following
    return sum(states.values())


def grows_exponentially(node: Node) -> bool:
    words = ["".join(w) for size in range(1, 6) for w in product("ab", repeat=size)]
    begins = ["", *(w for w in words if len(w) <= 3)]
    return any(
        (fewer := ways(node, begin + word * TIMES))
        and ways(node, begin + word * (2 * TIMES)) >= SHARE_MIN * fewer
        for begin in begins
        for word in words
    )


@pytest.mark.sweep
@settings(max_examples=examples(5, 200))
@given(node=nodes())
def test_patterns_are_refused_if_and_only_if_their_ways_grow_exponentially(node: Node) -> None:
    assert is_exponential(written(node)) == grows_exponentially(node)
