"""Panes: a sliding window as the fold of partial aggregates.

A window that slides is cut into panes, the longest pieces that no window's start or end divides
("No Pane, No Gain", Li et al., SIGMOD Record 2005). The box becomes two: one aggregates the
records of each pane, the other folds the panes of each window, so that a record is read once and
not once for each window that holds it. The parts of a pane may come from any disjoint sets of its
records, so a step can reuse the panes of an earlier one (`pipelines.spark.step_panes`).

Only the compiler does this: the network that is planned, deployed and shown has the user's boxes.
A box is rewritten only if its result is exactly the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from math import gcd

from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.names import NAME_LENGTH_MAX
from medusa_core.network import Aggregate, Port
from pipelines.language.aggregates import compile_aggregate
from pipelines.language.check import CheckedAggregate, CheckedNetwork, check_network
from pipelines.language.expressions import compile_expression
from pipelines.language.functions import AGGREGATES
from pipelines.language.parsing import parse

_SAME = {
    "min": "min", "max": "max", "bool_and": "bool_and", "every": "bool_and",
    "bool_or": "bool_or", "some": "bool_or", "any": "bool_or",
    "bit_and": "bit_and", "bit_or": "bit_or", "bit_xor": "bit_xor",
}  # fmt: skip
_COUNTS = ("count", "count_if")
_AVERAGES = ("avg", "mean")


class NoPanes(Exception):
    """A box has a value that is no fold of panes."""


def over_panes(
    checked: CheckedNetwork, but: Collection[str] = ()
) -> tuple[CheckedNetwork, Mapping[str, str]]:
    """The network with its sliding windows over panes, and which box folds which box's panes.

    The very same network if it has none, the boxes of `but` aside.
    """
    rewritten: list[InTwo] = []
    for box in checked.network.boxes:
        if not isinstance(box, Aggregate) or box.advance_us >= box.size_us or box.name in but:
            continue
        if box.emits_empty or box.aggregates:
            # What its windows have without records is no fold of panes, and no function of the
            # user's own is one of the compiler's.
            continue
        try:
            two = in_two(checked, box)
            boxes = [b for b in checked.network.boxes if b is not box]
            again = check_network(replace(checked.network, boxes=(*boxes, two.panes, two.whole)))
        except (NoPanes, Refused):
            continue
        if gives_the_same(checked, again, box.name):
            checked = again
            rewritten.append(two)
    # At the end: a network that is checked again forgets it.
    for two in rewritten:
        checked = as_fold(checked, two)
    return checked, {two.panes.name: two.whole.name for two in rewritten}


def as_fold(checked: CheckedNetwork, two: InTwo) -> CheckedNetwork:
    """The fold with its sums of partial sums as they are, and with the user's expressions.

    A sum is not looked at for an overflow: it is one of int over no more rows than a window may
    have, and 62 bits hold it.
    """
    # A sum of int is compiled to just that, and is a bigint too.
    columns = {
        c.name: Column(c.name, "int" if c.name in two.totals else c.type)
        for c in checked.columns[Port(two.panes.name)]
    }
    whole = two.whole
    aggregate = checked.boxes[whole.name]
    assert isinstance(aggregate, CheckedAggregate)
    folded = tuple(
        (name, compile_aggregate(text, columns, where="pane", group_by=whole.group_by))
        for name, text in whole.columns.items()
    )
    box = replace(aggregate, columns=folded, expressions=two.expressions)
    return replace(checked, boxes={**checked.boxes, whole.name: box})


def gives_the_same(before: CheckedNetwork, after: CheckedNetwork, box: str) -> bool:
    """Whether a box has the same columns, as exact as before."""

    def text_of(checked: CheckedNetwork) -> list[tuple[str, str, bool]]:
        aggregate = checked.boxes[box]
        assert isinstance(aggregate, CheckedAggregate)
        return [(name, c.type, c.tolerance_only) for name, c in aggregate.columns]

    return text_of(before) == text_of(after)


@dataclass(frozen=True, slots=True, kw_only=True)
class InTwo:
    """What makes the panes of a box, and what folds them.

    `totals` are the panes' columns that hold partial sums; `of_record` are the columns of the pane
    that one record would be alone, as expressions over it; `expressions` are those of the box.
    """

    panes: Aggregate
    whole: Aggregate
    totals: Collection[str]
    of_record: Mapping[str, str]
    expressions: tuple[str, ...]


def in_two(checked: CheckedNetwork, box: Aggregate, *, splits: bool = False) -> InTwo:
    """The box as two; windows that do not slide are a pane each.

    `splits`: sums of bigint are folded too, each in three parts. Raises NoPanes if a value of the
    box is no fold of panes.
    """
    network = checked.network
    aggregate = checked.boxes[box.name]
    assert isinstance(aggregate, CheckedAggregate)
    if any(c.record_error or c.tolerance_only for _, c in aggregate.columns):
        raise NoPanes
    columns = {c.name: c for c in checked.columns[network.port(box.input, box.name)]}
    fold = Fold(columns, box.group_by, splits)
    folded = {name: fold.expression(text) for name, text in box.columns.items()}
    panes = Aggregate(
        name=free_name(f"{box.name}_panes", {p.name for p in (*network.sources, *network.boxes)}),
        input=box.input,
        size=f"{gcd(box.size_us, box.advance_us)}us",
        group_by=fold.group_by,
        columns=fold.partials,
        fragment=box.fragment,
    )
    return InTwo(
        panes=panes,
        whole=replace(box, input=panes.name, columns=folded),
        totals=fold.totals,
        of_record={name: f"`{name}`" for name in fold.group_by} | fold.of_record,
        expressions=aggregate.expressions,
    )


def free_name(proposed: str, taken: Collection[str]) -> str:
    """A name like the proposed one, which nothing has yet."""
    for number in count(1):
        end = "" if number == 1 else str(number)
        name = f"{proposed[: NAME_LENGTH_MAX - len(end)]}{end}"
        if name not in taken:
            return name
    raise AssertionError


@dataclass
class Fold:
    """Aggregate expressions over records as partial ones over a pane, and folds of these.

    `functions` are the aggregate functions that fold each partial value.
    """

    columns: Mapping[str, Column]
    group_by: tuple[str, ...]
    splits: bool
    partials: dict[str, str] = field(default_factory=dict)
    of_record: dict[str, str] = field(default_factory=dict)
    distinct: str | None = None
    totals: set[str] = field(default_factory=set)
    functions: dict[str, str] = field(default_factory=dict)

    def expression(self, text: str) -> str:
        """The expression over panes; NoPanes if there is none that gives the very same."""
        return _as_text(self._folded(parse(text, "pane")))

    def _folded(self, node: exp.Expr) -> exp.Expr:
        call = node.this if isinstance(node, exp.Filter) else node
        if isinstance(call, exp.Anonymous) and call.name.lower() in AGGREGATES:
            return self._call(call.name.lower(), call, node)
        if isinstance(node, exp.AggFunc | exp.Star | exp.Filter | exp.IgnoreNulls | exp.Any):
            raise NoPanes
        copy = node.copy()
        for part in list(copy.iter_expressions()):
            part.replace(self._folded(part))
        return copy

    def _call(self, name: str, call: exp.Anonymous, whole: exp.Expr) -> exp.Expr:
        arguments = list(call.expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            return self._count_distinct(name, arguments[0], whole)
        if name in _COUNTS:
            return self._over("sum", self._counted(whole, _counts(name, arguments)))
        if len(arguments) != 1 or any(isinstance(a, exp.IgnoreNulls) for a in arguments):
            raise NoPanes
        if name in _SAME:
            value = _as_text(arguments[0])
            return self._over(_SAME[name], self._partial(_as_text(whole), _if(whole, value)))
        if name not in ("sum", *_AVERAGES):
            raise NoPanes
        type_ = self._type(arguments[0])
        if type_ == "bigint" and self.splits:
            return self._split(name, call, whole)
        if type_ != "int":
            raise NoPanes
        value = f"cast({_as_text(arguments[0])} as bigint)"
        total = self._partial(_as_text(_instead(whole, call, "sum")), _if(whole, value))
        self.totals.add(total)
        folded = self._over("sum", total)
        if name == "sum":
            return folded
        number = self._counted(_instead(whole, call, "count"), _counts("count", arguments))
        self.functions[number] = "sum"
        return parse(f"try_divide(cast(sum({total}) as double), cast(sum({number}) as double))",
                     "pane")  # fmt: skip

    def _split(self, name: str, call: exp.Anonymous, whole: exp.Expr) -> exp.Expr:
        """A sum or average of bigint: 32, 16 and 16 bits of each value are added up apart.

        So no part can overflow, and the total does where that of the records would.
        """
        value = f"({_as_text(call.expressions[0])})"
        high, middle, low = (
            self._total(whole, f"try_cast({bits} as int)", f"try_cast({bits} as bigint)")
            for bits in (
                f"shiftright({value}, 32)",
                f"(shiftright({value}, 16) & 65535)",
                f"({value} & 65535)",
            )
        )
        carried = f"(sum({middle}) + shiftright(sum({low}), 16))"
        upper = f"(sum({high}) + shiftright({carried}, 16))"
        lower = f"(({carried} & 65535) * 65536 + (sum({low}) & 65535))"
        if name == "sum":
            return parse(f"{upper} * 4294967296 + {lower}", "pane")
        number = self._counted(_instead(whole, call, "count"), _counts("count", call.expressions))
        self.functions[number] = "sum"
        total = f"cast({upper} as double) * 4294967296.0D + cast({lower} as double)"
        return parse(f"try_divide({total}, cast(sum({number}) as double))", "pane")

    def _total(self, whole: exp.Expr, value: str, of_record: str) -> str:
        """The name of the pane's column with the sum of an int over the records of a FILTER."""
        only = ""
        if isinstance(whole, exp.Filter):
            only = f" filter (where {_as_text(whole.expression.this)})"
        name = self._partial(f"sum({value}){only}", _if(whole, of_record))
        self.totals.add(name)
        self.functions[name] = "sum"
        return name

    def _count_distinct(self, name: str, distinct: exp.Distinct, whole: exp.Expr) -> exp.Expr:
        """A distinct count of one column: panes are grouped by its values too."""
        values = distinct.expressions
        is_plain = name == "count" and len(values) == 1 and isinstance(values[0], exp.Column)
        if not is_plain or isinstance(whole, exp.Filter):
            raise NoPanes
        column = values[0].name
        if column not in self.columns or self.distinct not in (None, column):
            raise NoPanes
        self.distinct = column
        if column not in self.group_by:
            self.group_by = (*self.group_by, column)
        return whole.copy()

    def _counted(self, whole: exp.Expr, counts: str) -> str:
        # 31 bits are enough for the rows of a window (`pipelines.language.aggregates`), and a sum
        # of int cannot overflow.
        of_record = f"if({_if(whole, counts)}, 1, 0)"
        return self._partial(f"try_cast({_as_text(whole)} as int)", of_record)

    def _partial(self, text: str, of_record: str) -> str:
        """The name of the pane's column with that expression, and what it is for one record."""
        for name, known in self.partials.items():
            if known == text:
                return name
        name = free_name("part", {*self.partials, *self.columns, "window_start"})
        self.partials[name], self.of_record[name] = text, of_record
        return name

    def _over(self, function: str, column: str) -> exp.Expr:
        """The fold of a pane's column, by this function."""
        self.functions[column] = function
        return exp.Anonymous(this=function, expressions=[exp.column(column)])

    def _type(self, argument: exp.Expr) -> str:
        return compile_expression(_as_text(argument), self.columns, where="pane").type


def _counts(name: str, arguments: list[exp.Expr]) -> str:
    """The condition under which a record is counted."""
    if name == "count_if":
        return _as_text(arguments[0])
    there = [f"({_as_text(a)}) is not null" for a in arguments if not isinstance(a, exp.Star)]
    return " and ".join(there) or "true"


def _if(whole: exp.Expr, value: str) -> str:
    """The value where a record passes the aggregate's FILTER, else NULL."""
    if not isinstance(whole, exp.Filter):
        return value
    return f"if({_as_text(whole.expression.this)}, {value}, null)"


def _instead(whole: exp.Expr, call: exp.Anonymous, function: str) -> exp.Expr:
    """The aggregate, with its FILTER, under another function."""
    other = exp.Anonymous(this=function, expressions=[a.copy() for a in call.expressions])
    if whole is call:
        return other
    copy = whole.copy()
    copy.set("this", other)
    return copy


def _as_text(tree: exp.Expr) -> str:
    """The expression as text; NoPanes if what is read of it again is not the same."""
    text = tree.sql(dialect="spark")
    try:
        is_same = parse(text, "pane") == tree
    except Refused:
        is_same = False
    if not is_same:
        raise NoPanes
    return text
