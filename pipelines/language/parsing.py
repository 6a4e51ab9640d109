"""From text to a tree: one Spark SQL expression, read by sqlglot, or one sentence about why not.

sqlglot parses plain syntax only. Functions keep the names they were written with, since its
own classes for them forget what Spark means (formats, defaults, order of arguments). Where sqlglot
and Spark bind operators differently, parentheses are required instead of guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from medusa_core.errors import Refused

TEXT_LENGTH_MAX = 10_000


class _Parser(SparkParser):
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        name: parse
        for name, parse in SparkParser.FUNCTION_PARSERS.items()
        if name in ("CAST", "TRY_CAST")
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        name: parse
        for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name in ("CASE", "IF")
    }

    def _warn_unsupported(self) -> None:
        """Say nothing: what is read as a command is refused, in a sentence of our own."""


class _PlainSpark(Spark):
    Parser = _Parser


_ESCAPES = re.compile(r"\\(?![\\'\"ntr])")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?(L|D)?", re.IGNORECASE)

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_BITWISE = (
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
    exp.BitwiseLeftShift,
    exp.BitwiseRightShift,
)
_COMPARISON = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.In,
    exp.Between,
)
_LOGICAL = (exp.And, exp.Or, exp.Not)
_OPERATORS = (*_ARITHMETIC, *_BITWISE, *_COMPARISON, *_LOGICAL, exp.DPipe)


def parse(text: str, where: str) -> exp.Expr:
    """The tree of one expression; raises Refused naming `where`, the text and the position."""
    if not isinstance(text, str) or not text.strip():
        raise Refused(f"{where} has no expression: write a Spark SQL expression as text")
    if len(text) > TEXT_LENGTH_MAX:
        raise Refused(
            f"{where} has an expression of {len(text)} characters, more than {TEXT_LENGTH_MAX}: "
            "split it over two boxes"
        )

    def refused(reason: str, at: int | None = None) -> Refused:
        return Refused(f"{where}: {quoted(text)} {reason}{position(text, at)}")

    dialect = _PlainSpark()
    try:
        tokens = dialect.tokenize(text)
        _check_tokens(text, tokens, refused)
        trees = dialect.parser().parse(tokens, text)
    except TokenError:
        raise refused("has a text or quoted name that does not end") from None
    except ParseError as error:
        place = _place(text, error)
        raise refused(f"cannot be read: {_advice(text, tokens, place)}look", place) from None
    except RecursionError:
        raise refused("is nested too deeply: split it over two boxes") from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None or isinstance(tree, exp.Select | exp.DDL | exp.DML | exp.Command | exp.Drop):
        raise refused("is no expression: write one value, such as `connections > 100`")
    _check_binding(tree, refused)
    return tree


def quoted(text: str) -> str:
    """An expression as a sentence shows it: one line, shortened in the middle."""
    line = " ".join(text.split())
    return f"`{line}`" if len(line) <= 120 else f"`{line[:80]} … {line[-30:]}`"


def position(text: str, at: int | None) -> str:
    """` at character 5`, or with the line where the text has several."""
    if at is None:
        return ""
    line = text.count("\n", 0, at) + 1
    character = at - (text.rfind("\n", 0, at) + 1) + 1
    return f" at character {character}" + (f" of line {line}" if "\n" in text.strip() else "")


def _place(text: str, error: ParseError) -> int | None:
    if not error.errors or error.errors[0].get("line") is None:
        return None
    line, end = int(error.errors[0]["line"]), int(error.errors[0]["col"])
    start = sum(len(row) + 1 for row in text.split("\n")[: line - 1])
    return max(start, start + end - len(error.errors[0].get("highlight") or " "))


_BEHIND_NO_COMMA = ("FROM", "FOR", "PLACING", "BOTH", "LEADING", "TRAILING")
_WITH_COMMAS = {
    "extract": "hour(x), day(x) or year(x)",
    "substring": "substring(x, 1, 3)",
    "trim": "trim(x), ltrim(x) or rtrim(x) for spaces, regexp_replace(x, '^0+', '') for others",
    "overlay": "concat of parts by substring",
}


def _advice(text: str, tokens: list[Token], place: int | None) -> str:
    """What to write for syntax of other systems, if that is what cannot be read."""
    if place is None:
        return ""
    if text[place : place + 1] == "~":
        return "write RLIKE for a pattern; "
    calls: list[tuple[str, bool]] = [("", False)]
    for before, token in pairwise(tokens):
        if token.start > place:
            break
        if token.token_type is TokenType.L_PAREN:
            calls.append((before.text.lower(), False))
        elif token.token_type is TokenType.R_PAREN and len(calls) > 1:
            calls.pop()
        elif token.text.upper() in _BEHIND_NO_COMMA:
            calls[-1] = (calls[-1][0], True)
    name, has_word = calls[-1]
    return f"write {_WITH_COMMAS[name]}; " if has_word and name in _WITH_COMMAS else ""


def _check_tokens(
    text: str, tokens: list[Token], refused: Callable[[str, int | None], Refused]
) -> None:
    """Refuse what may hide something or has two readings: comments, `;`, odd texts, numbers."""
    previous: Token | None = None
    for index, token in enumerate(tokens):
        written = text[token.start : token.end + 1]
        if token.comments:
            raise refused("has a comment: put it beside the expression, not into it", None)
        match token.token_type:
            case TokenType.SEMICOLON:
                raise refused("has a `;`: write one expression", token.start)
            case TokenType.DAMP:
                raise refused("has `&&`: write AND", token.start)
            case TokenType.STRING:
                escape = _ESCAPES.search(written.replace("\\\\", "  "))
                if escape:
                    odd = written[escape.start() : escape.start() + 2]
                    raise refused(
                        f"has the escape {odd} in a text: write r'…' for a text with backslashes, "
                        "or double them",
                        token.start + escape.start(),
                    )
                if previous is not None and previous.token_type is TokenType.STRING:
                    raise refused("has two texts side by side: write \\' for a quote inside a "
                                  "text, || to join two", token.start)  # fmt: skip
            case TokenType.NUMBER if not _NUMBER.fullmatch(written):
                raise refused(f"has the number {written}: write 10, 0.5, 1e3, 10L or 0.5D",
                              token.start)  # fmt: skip
            case TokenType.PARAMETER | TokenType.PLACEHOLDER:
                raise refused("has a parameter: write the value itself", token.start)
            case TokenType.COMMA | TokenType.R_PAREN if _lacks_value(previous, token):
                raise refused(
                    "lacks a value beside a comma: write it, or remove the comma", token.start
                )
            case _ if previous is not None and previous.token_type in _BEFORE_A_TYPE:
                reason = _unlike_elsewhere(written, token, tokens[index + 1 : index + 3])
                if reason:
                    raise refused(f"{reason}; look", token.start)
            case _:
                pass
        previous = token
    if any(token.comments for token in tokens) or not tokens:
        raise refused("has nothing but a comment", None)


_BEFORE_A_TYPE = (TokenType.ALIAS, TokenType.DCOLON)
_ONE_CHARACTER = (TokenType.CHAR, TokenType.NCHAR)
_TEXTS = (TokenType.VARCHAR, TokenType.NVARCHAR, TokenType.TEXT, *_ONE_CHARACTER)
_TIMES = (
    TokenType.TIMESTAMP, TokenType.TIMESTAMPTZ, TokenType.TIMESTAMPLTZ, TokenType.TIMESTAMPNTZ,
    TokenType.DATETIME,
)  # fmt: skip


def _unlike_elsewhere(written: str, type_: Token, behind: list[Token]) -> str:
    """Why a type of a cast is refused: its length or digits, or that it has one character, would be
    dropped. Empty if it is taken, or refused for another reason."""
    has_digits = [token.token_type for token in behind[:1]] == [TokenType.L_PAREN]
    if has_digits and type_.token_type in _TEXTS:
        return (
            "gives the length of a text, which would not be cut to it: write string, and "
            "substring(x, 1, 2) to cut it"
        )
    if type_.token_type in _ONE_CHARACTER:
        return (
            f"casts to {written}, which is one character in other systems: write string, and "
            "substring(x, 1, 1) to cut it"
        )
    if has_digits and type_.token_type in _TIMES and behind[-1].text != "6":
        return (
            "gives the digits of a time, which has microseconds and would not be cut to them: "
            "write timestamp, and date_trunc('second', x) to cut it"
        )
    if has_digits and type_.token_type in (TokenType.FLOAT, TokenType.DATE):
        instead = "double" if type_.token_type is TokenType.FLOAT else "date"
        return f"gives {written} digits, which would be dropped: write {instead}"
    return ""


def _lacks_value(previous: Token | None, token: Token) -> bool:
    """Whether no value is before a comma, or between one and a bracket: sqlglot skips those."""
    if previous is None:
        return False
    if token.token_type is TokenType.COMMA:
        return previous.token_type in (TokenType.L_PAREN, TokenType.COMMA)
    return previous.token_type is TokenType.COMMA


def _check_binding(tree: exp.Expr, refused: Callable[[str, int | None], Refused]) -> None:
    """Refuse operators side by side that sqlglot and Spark would group differently."""
    for node in tree.walk():
        if not isinstance(node, _OPERATORS):
            continue
        for part in node.iter_expressions():
            if isinstance(part, _OPERATORS) and not _bind_alike(node, part):
                raise refused(
                    f"mixes {_sign(node)} and {_sign(part)}: put parentheses around what belongs "
                    "together",
                    None,
                )


def _bind_alike(outer: exp.Expr, inner: exp.Expr) -> bool:
    if isinstance(outer, _LOGICAL):
        return True
    if isinstance(outer, _COMPARISON):
        return not isinstance(inner, (*_COMPARISON, *_LOGICAL))
    if isinstance(outer, _ARITHMETIC):
        return isinstance(inner, _ARITHMETIC)
    return type(inner) is type(outer) and inner is outer.args.get("this")


def _sign(node: exp.Expr) -> str:
    signs = {
        "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "intdiv": "div",
        "bitwiseand": "&", "bitwiseor": "|", "bitwisexor": "^", "bitwiseleftshift": "<<",
        "bitwiserightshift": ">>", "eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">",
        "gte": ">=", "nullsafeeq": "<=>", "dpipe": "||",
    }  # fmt: skip
    return signs.get(node.key, node.key.upper())
