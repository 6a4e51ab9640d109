"""A place in the tokens of a SQL file, and what every parser does there."""

from __future__ import annotations

from collections.abc import Mapping
from re import fullmatch

from medusa_core.errors import Refused
from medusa_core.names import NAME_PATTERN
from pipelines.language.sql.sql_text import SqlText, Token, Tokens, end_of_brackets

CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "UNION")
"""What ends an expression of a query."""

NOT_HERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("JOIN", "INNER", "LEFT", "SEMI", "ANTI"),
        "tables are joined behind FROM, each with its ON, and before WHERE and GROUP BY",
    ),
    "RIGHT": "RIGHT JOIN is not supported: write LEFT JOIN, and exchange the tables",
    "FULL": "FULL JOIN is not supported: write LEFT JOIN, and UNION ALL with an ANTI JOIN of the "
    "tables in exchange",
    "CROSS": "CROSS JOIN pairs every row with every row of a stream, which has no end: write JOIN "
    "… ON with a key and an interval",
    "WITHIN": "a join has its interval of time in ON: write AND b.stime BETWEEN a.stime - INTERVAL "
    "'5' SECOND AND a.stime + INTERVAL '5' SECOND",
    "NATURAL": "NATURAL JOIN has no interval of time: write JOIN … ON",
    "ASOF": "ASOF JOIN is not supported: write LEFT JOIN b FOR SYSTEM_TIME AS OF a.stime ON "
    "a.key = b.key AND b.stime >= a.stime - INTERVAL '1' DAY",
    "ORDER": "a stream has no end, so there is no ORDER BY: sort what you read from it",
    "SORT": "a stream has no end, so there is no SORT BY: sort what you read from it",
    **dict.fromkeys(
        ("LIMIT", "OFFSET", "FETCH"),
        "a stream has no order and no end, so there is no first so many rows: filter with WHERE, "
        "or rank the rows of a window with ROW_NUMBER",
    ),
    "QUALIFY": "QUALIFY is not supported: write FROM (SELECT *, ROW_NUMBER() OVER (…) AS rank FROM "
    "…) WHERE rank <= 10",
    "WINDOW": "WINDOW is not supported: write FROM TUMBLE(TABLE t, INTERVAL '1' MINUTE) and GROUP "
    "BY window_start, or what a window of OVER is made of inside of OVER (…)",
    **dict.fromkeys(
        ("INTERSECT", "EXCEPT", "MINUS"),
        "sets of rows are compared over a whole stream, which has no end: write WHERE, or UNION "
        "ALL and GROUP BY of a window",
    ),
    "LATERAL": "LATERAL is not supported: a row gives one row",
    "TABLESAMPLE": "a sample differs each time it is drawn: write WHERE with a condition, such as "
    "hash(id) % 100 = 0",
    **dict.fromkeys(("PIVOT", "UNPIVOT"), "PIVOT is not supported: write a column for each value"),
    **dict.fromkeys(
        ("CLUSTER", "DISTRIBUTE"), "how rows are divided among tasks is not part of a query"
    ),
    "EMIT": "a row is given when its window closes, and a `bound` in a contract limits how long it "
    "waits: remove EMIT",
    "MATCH_RECOGNIZE": "patterns of rows are not supported: number the rows of a window with "
    "ROW_NUMBER in a view, and join it with itself",
    "INTO": "what a query gives has a name before it: write CREATE STREAM name AS SELECT …",
}
"""What SQL has and a query here has not, with what to write instead."""

_BEFORE_A_VALUE = frozenset(
    ("AND", "OR", "NOT", "AS", "CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "LIKE", "ILIKE", "RLIKE",
     "IN", "IS", "DIV", "DISTINCT")
)  # fmt: skip


class TokenCursor:
    """Moves over the tokens of a file; whatever is not expected is refused with its place."""

    def __init__(self, text: SqlText) -> None:
        self.text, self.tokens, self.index = text, text.tokens, 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def upper(self, ahead: int = 0) -> str:
        index = self.index + ahead
        return self.tokens[index].upper if index < len(self.tokens) else ""

    def took(self, *words: str) -> bool:
        """Whether these words come next; they are passed then."""
        if any(self.upper(ahead) != word for ahead, word in enumerate(words)):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.took(*words):
            raise self.expected(" ".join(words))

    def expected(self, expected: str) -> Refused:
        """The error for the next token, with its own sentence where it has one."""
        token = self.token
        if token is None:
            end = len(self.text.text.rstrip())
            return self.text.refused(end, f"the file ends where {expected} follows")
        if token.upper == "UNION":
            return self.text.refused(
                token, "write UNION ALL: a stream has no end, so what it holds twice is not known"
            )
        if (token.upper, self.upper(1)) == ("WITHIN", "GROUP"):
            return self.text.refused(
                token, "WITHIN GROUP is not supported: write percentile(x, 0.5) for a median"
            )
        if (token.upper, self.upper(1)) == ("PARTITION", "BY"):
            return self.text.refused(token, f"{NOT_HERE['CLUSTER']}: remove PARTITION BY")
        if token.upper in ("WHERE", "GROUP", "HAVING") and expected.startswith("`;`"):
            return self.text.refused(
                token, "the clauses of a SELECT have an order: WHERE, GROUP BY, HAVING"
            )
        if token.upper in NOT_HERE:
            return self.text.refused(token, NOT_HERE[token.upper])
        if token.text == "#" or (token.text, self.upper(1)) == ("/", "/"):
            return self.text.refused(token, "a comment begins with -- or /*: write -- here")
        return self.text.refused(token, f"`{token.text}` is not expected here: write {expected}")

    def name(self, of: str) -> Token:
        token = self.token
        if token is None or token.kind not in ("word", "quoted"):
            raise self.expected(f"the name of {of}")
        if not fullmatch(NAME_PATTERN, token.name):
            raise self.text.refused(
                token,
                f"{token.text} is not a name: begin with a letter, continue with letters, "
                "digits and '_', 63 characters at most",
            )
        if self.upper(1) == ".":
            raise self.text.refused(
                token, f"no database or schema is before the name of {of}: remove `{token.text}.`"
            )
        self.index += 1
        return token

    def inside(self, what: str) -> Tokens:
        """What stands in the brackets that come next."""
        opening = self.index
        self.expect("(")
        end = end_of_brackets(self.tokens, opening)
        if end is None:
            raise self.text.refused(self.tokens[opening], f"the bracket of {what} is not closed")
        self.index = end + 1
        return self.tokens[opening + 1 : end]

    def until(self, *words: str) -> Tokens:
        """The tokens before one of these words, a `;` or the end, brackets passed as a whole."""
        begin = self.index
        while self.token is not None:
            before = self.tokens[self.index - 1].upper if self.index > begin else ""
            is_part = (before, self.upper()) == ("DISTINCT", "FROM")  # IS DISTINCT FROM
            if self.upper() in (*words, ";", ")") and not is_part:
                break
            is_behind_value = self.index > begin and _ends_a_value(self.tokens[self.index - 1])
            if self.upper() in NOT_HERE and is_behind_value:
                break
            if self.upper() == "(":
                self.inside("this part")
            else:
                self.index += 1
        return self.tokens[begin : self.index]


def _ends_a_value(token: Token) -> bool:
    """Whether a value may end with it: behind one, LIMIT is a clause, elsewhere a column."""
    if token.kind == "word":
        return token.upper not in _BEFORE_A_VALUE
    return token.kind in ("string", "quoted", "number") or token.upper == ")"
