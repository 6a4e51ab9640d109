"""JOIN … ON: keys, and the interval of the event times, become a Join or Lookup box.

    ON l.user = r.user AND r.stime BETWEEN l.stime - INTERVAL '5' SECOND AND l.stime

A second table FOR SYSTEM_TIME AS OF l.stime is that of a Lookup, and the interval its `max_age`.
`stime` is the event time of any row; a table that is a source may write its column of event time.

Several joins are a chain of boxes; each joins one more table. The event time of a pair is
the later of the two, and not always that of a table that a later ON names. Where it is at a fixed
distance from it, the interval is moved by that distance; else it is refused, since the boxes would
compare another time than the condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from medusa_core.errors import Refused
from medusa_core.grid import parse_offset_us
from medusa_core.network import Join, Lookup
from pipelines.language.sql.intervals import duration_of
from pipelines.language.sql.relations import EVENT_TIME, BoxList, Relation
from pipelines.language.sql.scopes import Scope, TableTime
from pipelines.language.sql.sql_text import SqlText, Token, Tokens, end_of_brackets, written
from pipelines.language.sql.statements import JoinedTables

LEFT, RIGHT = "left", "right"
EXAMPLE = (
    "{right}.stime BETWEEN {left}.stime - INTERVAL '5' SECOND AND {left}.stime + INTERVAL '5' "
    "SECOND"
)
EXAMPLE_AS_OF = "{right}.stime >= {left}.stime - INTERVAL '1' DAY"


def joined(tables: JoinedTables, left: Scope, right: Scope, made: BoxList) -> Scope:
    """The rows of a join; Refused with line and column."""
    of_left, of_right = _name(tables, left, made), _name(tables, right, made)
    if of_right in left.tables:
        both = "both" if len(left.tables) == 1 else "two"
        raise made.text.refused(
            tables.at, f"{both} tables are named {of_right}: write AS and another name behind one"
        )
    known = (name for name in left.tables if left.time_of(name).behind_us is not None)
    of_left = next(known, of_left)
    sides = {**dict.fromkeys(left.tables, (LEFT, left)), of_right: (RIGHT, right)}
    found = _Condition(made.text, tables, sides, of_left, of_right)
    for part in parts_of_condition(without_brackets(tables.on)):
        found.add(part)
    columns, names = _columns(tables, found.keys, left, right, of_right)
    on = tuple(a if a == b else f"{a} = {b}" for a, b in found.keys)
    box: Join | Lookup
    behind_left: int | None = 0
    behind_right: int | None = None
    if tables.as_of is None:
        lo_us, hi_us = found.bounds()
        behind_left, behind_right = _behind_us(tables.how, lo_us, hi_us)
        box = Join(
            name=made.name_of("join"),
            left=left.relation.port,
            right=right.relation.port,
            on=on,
            within=(_offset(lo_us), _offset(hi_us)),
            how=tables.how,
            columns=columns,
        )
    else:
        box = Lookup(
            name=made.name_of("lookup"),
            input=left.relation.port,
            table=right.relation.port,
            on=on,
            max_age=_offset(found.max_age_us(tables.as_of)),
            how=tables.how,
            columns=columns,
        )
    port = made.add(box, tables.at)
    relation = Relation(port=port, columns=tuple(columns) or left.relation.columns)
    of_all = dict(left.tables)
    times = {name: _later(left.time_of(name), behind_left) for name in left.tables}
    if columns:
        of_all[of_right] = names
        times[of_right] = _later(right.time_of(of_right), behind_right)
    return Scope(relation=relation, tables=of_all, times=times)


def _behind_us(how: str, lo_us: int, hi_us: int) -> tuple[int | None, int | None]:
    """By how much the event time of a joined row is behind that of its left and right row.

    None, if that differs from row to row.
    """
    if how in ("semi", "anti"):
        return max(hi_us, 0), None
    of_left = 0 if hi_us <= 0 else None
    of_right = 0 if lo_us >= 0 else None
    if lo_us == hi_us:
        of_left, of_right = max(hi_us, 0), max(-hi_us, 0)
    # A left row without a partner has no right row.
    return of_left, of_right if how == "inner" else None


def _later(time: TableTime, more_us: int | None) -> TableTime:
    """The time of a table whose rows are joined once more."""
    is_known = time.behind_us is not None and more_us is not None
    return replace(time, behind_us=(time.behind_us or 0) + (more_us or 0) if is_known else None)


def _name(tables: JoinedTables, side: Scope, made: BoxList) -> str:
    """The name of a table, which its columns are written with."""
    for name in side.tables:
        return name
    raise made.text.refused(tables.at, "a query that is joined needs a name: write AS behind it")


def _columns(
    tables: JoinedTables,
    keys: list[tuple[str, str]],
    left: Scope,
    right: Scope,
    of_right: str,
) -> tuple[dict[str, str], dict[str, str]]:
    """The columns of the box, and those of the right table: its name -> column of the box.

    A key of an inner join that both name alike is one column. Without columns of the right table
    (semi, anti) the box has those of the left one by default.
    """
    if tables.how in ("semi", "anti"):
        return {}, {}
    of_one, of_other = (LEFT, RIGHT) if tables.as_of is None else ("input", "table")
    columns = {name: f"{of_one}.{name}" for name in left.relation.columns}
    names: dict[str, str] = {}
    for name in right.relation.columns:
        if tables.how == "inner" and (name, name) in keys:
            names[name] = name
            continue
        own = name
        while own in columns:
            own = f"{of_right}_{own}"
        names[name] = own
        columns[own] = f"{of_other}.{name}"
    return columns, names


@dataclass
class _Condition:
    """What the parts of ON have said so far."""

    text: SqlText
    tables: JoinedTables
    sides: dict[str, tuple[str, Scope]]
    left: str
    right: str
    keys: list[tuple[str, str]] = field(default_factory=list)
    lo_us: int | None = None
    hi_us: int | None = None

    def add(self, part: Tokens) -> None:
        """One part between ANDs: an equality of columns, or a bound of times."""
        if not part:
            raise self.text.refused(
                self.tables.at, "ON lacks a condition: write one behind it, or remove an AND"
            )
        words = [token.upper for token in part]
        if "BETWEEN" in words:
            middle = words.index("BETWEEN")
            end = words.index("AND", middle) if "AND" in words[middle:] else len(words)
            value = part[:middle]
            self._bound(part, part[middle + 1 : end], value, strict=False)
            self._bound(part, value, part[end + 1 :], strict=False)
            return
        for sign in ("<=", ">=", "<", ">", "="):
            if sign in words:
                at = words.index(sign)
                one, other = part[:at], part[at + 1 :]
                break
        else:
            raise self._unknown(part)
        if sign == "=" and self._add_key(one, other):
            return
        if sign.startswith(">"):
            one, other = other, one
        self._bound(part, one, other, strict=sign in ("<", ">"))
        if sign == "=":
            self._bound(part, other, one, strict=False)

    def bounds(self) -> tuple[int, int]:
        """The least and greatest right time - left time, in microseconds."""
        self._check_has_key()
        if self.lo_us is None or self.hi_us is None:
            raise self.text.refused(
                self.tables.at, "a join of streams needs an interval of time, since it cannot "
                f"keep all rows: write AND {EXAMPLE.format(left=self.left, right=self.right)}"
            )  # fmt: skip
        if self.lo_us > self.hi_us:
            raise self.text.refused(
                self.tables.at, "the interval of this join is empty: no event time is behind its "
                "beginning and before its end"
            )  # fmt: skip
        return self.lo_us, self.hi_us

    def max_age_us(self, as_of: Tokens) -> int:
        """How much earlier than a left row the right one may be, in microseconds."""
        self._check_has_key()
        if self.tables.how not in ("inner", "left"):
            raise self.text.refused(
                self.tables.at, "FOR SYSTEM_TIME AS OF finds one row or none: write JOIN or LEFT "
                "JOIN, and WHERE behind it"
            )  # fmt: skip
        if not self._is_time(as_of) or self._side(as_of[0])[0] != LEFT:
            raise self.text.refused(
                as_of[0], f"the second table is read as of the event time of the first: write FOR "
                f"SYSTEM_TIME AS OF {self.left}.stime"
            )  # fmt: skip
        if self._behind(as_of[0]) != 0:
            raise self._not_exact(as_of[0])
        example = EXAMPLE_AS_OF.format(left=self.left, right=self.right)
        if self.lo_us is None or self.lo_us >= 0:
            raise self.text.refused(
                self.tables.at, "a table that is read as of a time needs a bound in the past: rows "
                f"are not kept without limit; write AND {example}"
            )  # fmt: skip
        if self.hi_us not in (None, 0):
            raise self.text.refused(
                self.tables.at, "FOR SYSTEM_TIME AS OF finds the newest row that is not later: "
                f"write one bound of times, {example}"
            )  # fmt: skip
        return -self.lo_us

    def _check_has_key(self) -> None:
        if not self.keys:
            raise self.text.refused(
                self.tables.at, "a join needs a key: write ON with columns that are equal, such as "
                f"{self.left}.user = {self.right}.user"
            )  # fmt: skip

    def _add_key(self, one: Tokens, other: Tokens) -> bool:
        """Whether both are columns, one of each table; they are a key then."""
        found: dict[str, str] = {}
        for tokens in (one, other):
            is_column = len(tokens) == 3 and tokens[1].text == "."
            if not is_column or self._is_time(tokens):
                return False
            side, scope = self._side(tokens[0])
            (column,) = scope.resolved(self.text, tokens)
            found[side] = column.name
        if len(found) < 2:
            raise self.text.refused(one[0], "a key has a column of each table: name both")
        self.keys.append((found[LEFT], found[RIGHT]))
        return True

    def _bound(self, part: Tokens, low: Tokens, high: Tokens, *, strict: bool) -> None:
        """Note that low <= high, both event times with what is added to them."""
        (a, a_us), (b, b_us) = self._time(part, low), self._time(part, high)
        if a == b:
            raise self._unknown(part)
        if a == LEFT:
            bound_us = a_us - b_us + strict
            self.lo_us = bound_us if self.lo_us is None else max(self.lo_us, bound_us)
        else:
            bound_us = b_us - a_us - strict
            self.hi_us = bound_us if self.hi_us is None else min(self.hi_us, bound_us)

    def _time(self, part: Tokens, tokens: Tokens) -> tuple[str, int]:
        """The side whose event time it is, and what is added to it, in microseconds."""
        if not self._is_time(tokens[:3]):
            raise self._unknown(part)
        side, _ = self._side(tokens[0])
        behind_us = self._behind(tokens[0])
        if len(tokens) == 3:
            return side, -behind_us
        if tokens[3].text not in ("+", "-"):
            raise self._unknown(part)
        duration = duration_of(self.text, tokens[4:], tokens[3], check=parse_offset_us)
        size_us = parse_offset_us(duration)
        return side, (size_us if tokens[3].text == "+" else -size_us) - behind_us

    def _behind(self, table: Token) -> int:
        """By how much the time of the rows that are joined is behind that of a table."""
        _, scope = self._side(table)
        behind_us = scope.time_of(table.name).behind_us
        if behind_us is None:
            raise self._not_exact(table)
        return behind_us

    def _not_exact(self, table: Token) -> Refused:
        """The error for the time of a table that is not at a fixed distance."""
        return self.text.refused(
            table, "the joined rows have the time of the later of two rows, which is not always "
            f"that of {table.text}: make a view of the joins before, write its stime in this "
            f"interval, and compare the times of {table.text} in WHERE"
        )  # fmt: skip

    def _is_time(self, tokens: Tokens) -> bool:
        """Whether it is the event time of a table: `a.stime`."""
        if len(tokens) != 3 or tokens[1].text != "." or tokens[2].kind not in ("word", "quoted"):
            return False
        _, scope = self._side(tokens[0])
        return tokens[2].name in (EVENT_TIME, scope.time_of(tokens[0].name).column)

    def _side(self, owner: Token) -> tuple[str, Scope]:
        if owner.name not in self.sides:
            known = " or ".join(self.sides)
            raise self.text.refused(owner, f"{owner.text} is not in this join, which has {known}")
        return self.sides[owner.name]

    def _unknown(self, part: Tokens) -> Refused:
        left, right = self.left, self.right
        example = EXAMPLE if self.tables.as_of is None else EXAMPLE_AS_OF
        # WHERE is behind the join: there, a row without a partner is lost.
        is_inner = self.tables.how == "inner"
        if self.tables.as_of is not None:
            others = "WHERE" if is_inner else "CASE WHEN … THEN … END of the columns in SELECT"
            others = f"other conditions into {others}"
        elif is_inner:
            others = "other conditions into WHERE, or into a view before the join"
        else:
            others = f"a condition on {right} alone into a view of {right} before the join"
        return self.text.refused(
            part[0] if part else self.tables.at,
            f"`{written(part)}` is neither a key nor a bound of times: write {left}.user = "
            f"{right}.user, {example.format(left=left, right=right)}, and {others}",
        )


def without_brackets(tokens: Tokens) -> Tokens:
    """A condition without the brackets around it as a whole."""
    while tokens and tokens[0].text == "(" and end_of_brackets(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def parts_of_condition(condition: Tokens) -> list[Tokens]:
    """The parts that AND joins, also those in brackets that have nothing but AND in them."""
    found: list[Tokens] = []
    for part in conjuncts(condition):
        inner = without_brackets(part)
        is_one = len(inner) == len(part) or not inner or or_of(inner) is not None
        found += [part] if is_one else parts_of_condition(inner)
    return found


def or_of(tokens: Tokens) -> Token | None:
    """The first OR that is in no brackets and in no CASE, if there is one."""
    depth = 0
    for token in tokens:
        depth += (token.upper in ("(", "CASE")) - (token.upper in (")", "END"))
        if token.upper == "OR" and depth == 0:
            return token
    return None


def conjuncts(tokens: Tokens) -> list[Tokens]:
    """The parts of a condition that AND joins; brackets, CASE and BETWEEN are each in one part."""
    parts: list[list[Token]] = [[]]
    depth, is_between = 0, False
    for token in tokens:
        depth += (token.upper in ("(", "CASE")) - (token.upper in (")", "END"))
        if token.upper == "BETWEEN" and depth == 0:
            is_between = True
        elif token.upper == "AND" and depth == 0:
            if not is_between:
                parts.append([])
                continue
            is_between = False
        parts[-1].append(token)
    return list(parts)


def _offset(offset_us: int) -> str:
    """An offset as a network file has it, in the greatest unit that divides it."""
    units = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}
    for unit, size_us in units.items():
        if offset_us and offset_us % size_us == 0:
            return f"{offset_us // size_us}{unit}"
    return f"{offset_us}us" if offset_us else "0s"
