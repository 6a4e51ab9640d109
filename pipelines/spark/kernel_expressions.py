"""Compiled expressions in DuckDB SQL: what kernels can compute, as a list of rules.

Each rule gives an expression with the type that Spark gives it, and only where both engines have
the same value for every argument (law K1). Anything else is NotInKernel: decimals in arithmetic,
sums of doubles, doubles as keys of a group, functions whose Unicode tables differ, and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
}
"""The types with which kernels compute, as DuckDB names them."""

_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_INTEGRAL = ("int", "bigint")
_WIDER = {"int": "BIGINT", "bigint": "HUGEINT"}
"""In which no sum, difference or product of two values of a type overflows."""

NULL = "void"

Columns = Mapping[str, str]
"""The types of a relation's columns, in order."""


class Record(str):
    """The type of a record of fields: their types by name.

    Records are compared field by field. A NULL is the least value to Spark and the greatest to
    DuckDB, in which a record therefore has, before each field, whether that is not NULL.
    """

    __slots__ = ("fields",)

    fields: Mapping[str, str]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Record:
        """The type of records with these fields."""
        type_ = cls(f"struct<{', '.join(f'{name} {of}' for name, of in fields.items())}>")
        type_.fields = fields
        return type_


def _has(field: str) -> str:
    return quoted(f"has_{field}")


def duckdb_type(type_: str) -> str | None:
    """The type as DuckDB names it; decimals and bytes are compared with their like, and no more."""
    if isinstance(type_, Record):
        fields = (f"{_has(n)} BOOLEAN, {quoted(n)} {duckdb_type(of)}"
                  for n, of in type_.fields.items())  # fmt: skip
        return f"STRUCT({', '.join(fields)})"
    if type_ == "binary":
        return "BLOB"
    return type_.upper() if type_.startswith("decimal(") else TYPES.get(type_)


class NotInKernel(Exception):
    """The fragment has something that is not translated; the text says what."""


@dataclass(frozen=True, slots=True)
class Value:
    """An expression in DuckDB SQL and the type that it has in both engines."""

    sql: str
    type: str

    def as_(self, type_: str) -> str:
        """The value in a wider type; NULL has none of its own."""
        return self.sql if self.type == type_ else f"CAST({self.sql} AS {duckdb_type(type_)})"


def quoted(name: str) -> str:
    """A name as an identifier; Spark's names are the same in any case."""
    return '"' + name.lower().replace('"', '""') + '"'


@dataclass
class Scope:
    """Translates expressions over the columns of a relation, or of some that are joined.

    `columns` are those that need not say whose they are.
    """

    columns: Columns
    windows: Mapping[str, exp.Expr] = field(default_factory=dict)
    relations: dict[str, Columns] = field(default_factory=dict)
    """Those that a column can be of, where it says so."""

    def joined(self, name: str, columns: Columns) -> None:
        """The scope over one relation more; a column of both has to say whose it is."""
        both = set(self.columns) & set(columns)
        everything = {**self.columns, **columns}
        self.columns = {c: type_ for c, type_ in everything.items() if c not in both}
        self.relations[name] = columns

    def all_of(self, node: exp.Expr) -> Columns:
        """The columns of `name.*`."""
        name = node.args["table"].name.lower()
        if name not in self.relations:
            raise NotInKernel(f"it has {_text(node)}")
        return self.relations[name]

    def window(self, node: exp.Expr) -> str:
        """The rows of a window function, in order, as in both engines if none is said."""
        parts = []
        if keys := node.args.get("partition_by"):
            parts.append(f"PARTITION BY {', '.join(map(self.key, keys))}")
        if order := node.args.get("order"):
            parts.append(f"ORDER BY {', '.join(map(self.ordered, order.expressions))}")
        if spec := node.args.get("spec"):
            if spec.sql(dialect="spark") != _SO_FAR:
                raise NotInKernel(f"it has a window of {spec.sql(dialect='spark')}")
            parts.append(_SO_FAR)
        return " ".join(parts)

    def ordered(self, node: exp.Expr) -> str:
        """A key by which rows are ordered."""
        value, is_descending = self.value(node.this), bool(node.args.get("desc"))
        first = node.args.get("nulls_first")
        nulls = "FIRST" if (not is_descending if first is None else first) else "LAST"
        return f"{value.sql} {'DESC' if is_descending else 'ASC'} NULLS {nulls}"

    def condition(self, node: exp.Expr) -> str:
        """A boolean."""
        return self.of_type(node, "boolean")

    def of_type(self, node: exp.Expr, *types: str) -> str:
        """An expression of one of these types."""
        value = self.value(node)
        if value.type not in types:
            raise NotInKernel(f"it has {_text(node)}, a {value.type}, where {types[0]} is wanted")
        return value.sql

    def key(self, node: exp.Expr) -> str:
        """What rows are grouped by. Engines differ in which double of two equal ones is the key."""
        value = self.value(node)
        if value.type in ("double", NULL) or isinstance(value.type, Record):
            raise NotInKernel(f"it groups by {_text(node)}, a {value.type}")
        return value.sql

    def value(self, node: exp.Expr) -> Value:
        """Any expression."""
        for kind in type(node).__mro__:
            rule = _RULES.get(kind)
            if rule is not None:
                return rule(self, node)
        raise NotInKernel(f"it has {_text(node)}")

    def pair(self, node: exp.Expr) -> tuple[Value, Value, str]:
        """Both sides of a comparison, and their common type."""
        left, right = self.value(node.this), self.value(node.expression)
        return left, right, _common(node, left.type, right.type)

    def exploded(self, node: exp.Explode) -> Value:
        """Numbers, each in a row of its own: listed, or from, to and by."""
        inner = node.this
        if isinstance(inner, exp.Array):
            listed = ", ".join(self.of_type(item, "int") for item in inner.expressions)
            return Value(f"unnest([{listed}])", "int")
        if isinstance(inner, exp.GenerateSeries):
            first, last, step = (
                self.of_type(inner.args[part], "bigint") for part in ("start", "end", "step")
            )
            return Value(f"unnest(range({first}, {last} + 1, {step}))", "bigint")
        raise NotInKernel(f"it has {_text(node)}")


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="spark")[:80]


def _common(node: exp.Expr, *types: str) -> str:
    """The type in which values are compared, or that branches have."""
    known = {t for t in types if t != NULL}
    if any(isinstance(t, Record) for t in known):
        raise NotInKernel(f"it compares records: {_text(node)}")
    if not known:
        raise NotInKernel(f"it has {_text(node)} without a type")
    if len(known) == 1:
        return known.pop()
    if known == {"int", "bigint"}:
        return "bigint"
    if known <= {"int", "bigint", "double"}:
        return "double"
    raise NotInKernel(f"it has {_text(node)} of {' and '.join(sorted(known))}")


def _column(scope: Scope, node: exp.Expr) -> Value:
    name, of = node.name.lower(), node.args.get("table")
    relation = of.name.lower() if of is not None else ""
    if name in (columns := scope.relations.get(relation, {})):
        return Value(f"{quoted(relation)}.{quoted(name)}", columns[name])
    record = scope.columns.get(relation)
    if isinstance(record, Record) and name in record.fields:
        return Value(f"struct_extract({quoted(relation)}, '{name}')", record.fields[name])
    if of is not None or name not in scope.columns:
        raise NotInKernel(f"it has {_text(node)}")
    return Value(quoted(name), scope.columns[name])


def _literal(scope: Scope, node: exp.Expr) -> Value:
    text = str(node.this)
    if node.args.get("is_string"):
        if "\0" in text:
            raise NotInKernel("it has a text with a NUL")
        return Value("'" + text.replace("'", "''") + "'", "string")
    if text.isdigit() and int(text) < 1 << 31:
        return Value(f"CAST({text} AS INTEGER)", "int")
    if text.isdigit() and int(text) < 1 << 63:
        return Value(f"CAST({text} AS BIGINT)", "bigint")
    raise NotInKernel(f"it has the number {text}")


def _negative(scope: Scope, node: exp.Expr) -> Value:
    inner = node.this
    if isinstance(inner, exp.Literal) and str(inner.this).isdigit():
        number = -int(str(inner.this))
        if number >= -(1 << 31):
            return Value(f"CAST({number} AS INTEGER)", "int")
    if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal):
        return _number(f"-{inner.this.this}", _type(inner.to), node)
    value = scope.value(inner)
    if value.type != "double":
        raise NotInKernel(f"it has {_text(node)}")
    return Value(f"(- {value.sql})", "double")


def _number(text: str, type_: str, node: exp.Expr) -> Value:
    """A literal with a suffix, which the parser gives as a cast."""
    if type_ == "bigint" and text.lstrip("-").isdigit() and -(1 << 63) <= int(text) < 1 << 63:
        return Value(f"CAST('{text}' AS BIGINT)", "bigint")
    if type_ == "double":
        return Value(f"CAST('{float(text)!r}' AS DOUBLE)", "double")
    raise NotInKernel(f"it has {_text(node)}")


def _type(node: exp.Expr) -> str:
    name = node.sql(dialect="spark").lower().replace(" ", "")
    return {"integer": "int", "long": "bigint"}.get(name, name)


def _cast(scope: Scope, node: exp.Expr) -> Value:
    type_ = _type(node.args["to"])
    named = duckdb_type(type_)
    if named is None:
        raise NotInKernel(f"it has a {type_}")
    inner = node.this
    if isinstance(inner, exp.Null):
        return Value(f"CAST(NULL AS {named})", type_)
    if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
        return _number(str(inner.this), type_, node)
    value = scope.value(inner)
    if value.type == type_:
        return value
    if (value.type, type_) == ("bigint", "int"):
        return Value(f"TRY_CAST({value.sql} AS INTEGER)", "int")
    if (value.type, type_) in (("int", "bigint"), ("int", "double"), ("bigint", "double")):
        return Value(f"CAST({value.sql} AS {named})", type_)
    if type_ == "string" and value.type in (*_INTEGRAL, "boolean"):
        return Value(f"CAST({value.sql} AS VARCHAR)", "string")
    raise NotInKernel(f"it casts {value.type} to {type_}")


def _arithmetic(sign: str, *, tried: bool) -> Callable[[Scope, exp.Expr], Value]:
    def rule(scope: Scope, node: exp.Expr) -> Value:
        left, right = scope.value(node.this), scope.value(node.expression)
        type_ = _common(node, left.type, right.type)
        if type_ not in ("int", "bigint", "double"):
            raise NotInKernel(f"it has {_text(node)}")
        if tried and type_ != "double":
            wider = _WIDER[type_]
            sides = (f"CAST({side.sql} AS {wider})" for side in (left, right))
            return Value(f"TRY_CAST({f' {sign} '.join(sides)} AS {TYPES[type_]})", type_)
        # Beyond all range a kernel fails, and Spark computes the step.
        return Value(f"({left.as_(type_)} {sign} {right.as_(type_)})", type_)

    return rule


def _divided(scope: Scope, node: exp.Expr) -> Value:
    """A double; NULL for a divisor of 0."""
    left, right = (scope.value(part) for part in (node.this, node.expression))
    for side in (left, right):
        if side.type not in ("int", "bigint", "double"):
            raise NotInKernel(f"it has {_text(node)}")
    divisor = right.as_("double")
    return Value(f"({left.as_('double')} / nullif({divisor}, CAST(0 AS DOUBLE)))", "double")


def _whole_division(scope: Scope, node: exp.Expr) -> Value:
    left, right = (scope.value(part) for part in (node.this, node.expression))
    if left.type not in _INTEGRAL or right.type not in _INTEGRAL:
        raise NotInKernel(f"it has {_text(node)}")
    return Value(f"({left.as_('bigint')} // {right.as_('bigint')})", "bigint")


def _remainder(scope: Scope, node: exp.Expr) -> Value:
    left, right = scope.value(node.this), scope.value(node.expression)
    if left.type not in _INTEGRAL or right.type not in _INTEGRAL:
        raise NotInKernel(f"it has {_text(node)}")
    type_ = _common(node, left.type, right.type)
    zero = f"CAST(0 AS {TYPES[type_]})"
    return Value(f"({left.as_(type_)} % nullif({right.as_(type_)}, {zero}))", type_)


def _pmod(scope: Scope, arguments: Sequence[exp.Expr]) -> Value:
    """The remainder of a division by a positive constant, never negative."""
    left, right = (scope.of_type(argument, "bigint") for argument in arguments)
    if not isinstance(arguments[1], exp.Cast) or not isinstance(arguments[1].this, exp.Literal):
        raise NotInKernel("it has pmod by something other than a constant")
    return Value(f"((({left} % {right}) + {right}) % {right})", "bigint")


def _compared(sign: str) -> Callable[[Scope, exp.Expr], Value]:
    def rule(scope: Scope, node: exp.Expr) -> Value:
        left, right, type_ = scope.pair(node)
        return Value(f"({left.as_(type_)} {sign} {right.as_(type_)})", "boolean")

    return rule


def _logic(word: str) -> Callable[[Scope, exp.Expr], Value]:
    def rule(scope: Scope, node: exp.Expr) -> Value:
        left, right = scope.condition(node.this), scope.condition(node.expression)
        return Value(f"({left} {word} {right})", "boolean")

    return rule


def _is(scope: Scope, node: exp.Expr) -> Value:
    kind = node.expression
    if isinstance(kind, exp.Null):
        return Value(f"({scope.value(node.this).sql} IS NULL)", "boolean")
    if isinstance(kind, exp.Boolean):
        word = "TRUE" if kind.this else "FALSE"
        return Value(f"({scope.condition(node.this)} IS {word})", "boolean")
    raise NotInKernel(f"it has {_text(node)}")


def _choice(scope: Scope, node: exp.Expr) -> Value:
    """CASE without a subject, and IF."""
    is_case = isinstance(node, exp.Case)
    if is_case and node.this is not None:
        subject = node.this
        tests = [exp.EQ(this=subject.copy(), expression=b.this.copy()) for b in node.args["ifs"]]
    else:
        tests = [b.this for b in (node.args["ifs"] if is_case else [node])]
    branches = node.args["ifs"] if is_case else [node]
    values = [scope.value(branch.args["true"]) for branch in branches]
    other = node.args.get("default" if is_case else "false")
    otherwise = Value("NULL", NULL) if other is None else scope.value(other)
    type_ = _common(node, otherwise.type, *(value.type for value in values))
    whens = " ".join(
        f"WHEN {scope.condition(test)} THEN {value.as_(type_)}"
        for test, value in zip(tests, values, strict=True)
    )
    return Value(f"CASE {whens} ELSE {otherwise.as_(type_)} END", type_)


def _listed(scope: Scope, node: exp.Expr) -> Value:
    subject, values = scope.value(node.this), [scope.value(v) for v in node.expressions]
    if not values or node.args.get("query"):
        raise NotInKernel(f"it has {_text(node)}")
    type_ = _common(node, subject.type, *(value.type for value in values))
    listed = ", ".join(value.as_(type_) for value in values)
    return Value(f"({subject.as_(type_)} IN ({listed}))", "boolean")


def _shift(sign: str) -> Callable[[Scope, exp.Expr], Value]:
    """A bigint shifted by a constant; to the left as a product, which is the same or fails."""

    def rule(scope: Scope, node: exp.Expr) -> Value:
        value, by = scope.of_type(node.this, "bigint"), node.expression
        if not isinstance(by, exp.Literal) or not 0 <= int(str(by.this)) < 63:
            raise NotInKernel(f"it has {_text(node)}")
        if sign == "<<":
            return Value(f"({value} * CAST({1 << int(str(by.this))} AS BIGINT))", "bigint")
        return Value(f"({value} >> CAST({by.this} AS INTEGER))", "bigint")

    return rule


def _bits(sign: str) -> Callable[[Scope, exp.Expr], Value]:
    def rule(scope: Scope, node: exp.Expr) -> Value:
        left, right = scope.value(node.this), scope.value(node.expression)
        type_ = _common(node, left.type, right.type)
        if type_ not in _INTEGRAL:
            raise NotInKernel(f"it has {_text(node)}")
        if sign == "^":
            return Value(f"xor({left.as_(type_)}, {right.as_(type_)})", type_)
        return Value(f"({left.as_(type_)} {sign} {right.as_(type_)})", type_)

    return rule


def _coalesce(scope: Scope, node: exp.Expr) -> Value:
    values = [scope.value(v) for v in (node.this, *node.expressions)]
    type_ = _common(node, *(value.type for value in values))
    return Value(f"coalesce({', '.join(value.as_(type_) for value in values)})", type_)


def _concat(scope: Scope, node: exp.Expr) -> Value:
    """Of texts alone; NULL if one is."""
    texts = [scope.of_type(text, "string") for text in node.expressions]
    return Value(f"({' || '.join(texts)})", "string")


def _md5(scope: Scope, node: exp.Expr) -> Value:
    """Of the bytes of a text in UTF-8, as 32 hexadecimal digits in lower case."""
    return Value(f"md5({scope.of_type(node.this, 'string')})", "string")


def _substring_index(scope: Scope, node: exp.Expr) -> Value:
    """What lies before a delimiter of one character, the nth from the left."""
    text, delimiter, count = node.this, node.args["delimiter"], node.args["count"]
    is_listed = isinstance(delimiter, exp.Literal) and len(str(delimiter.this)) == 1
    if not is_listed or not isinstance(count, exp.Literal) or int(str(count.this)) < 1:
        raise NotInKernel(f"it has {_text(node)}")
    sign = _literal(scope, delimiter).sql
    parts = f"string_split({scope.of_type(text, 'string')}, {sign})"
    return Value(f"array_to_string(list_slice({parts}, 1, {count.this}), {sign})", "string")


def _text_test(name: str) -> Callable[[Scope, exp.Expr], Value]:
    def rule(scope: Scope, node: exp.Expr) -> Value:
        texts = [scope.of_type(part, "string") for part in (node.this, node.expression)]
        return Value(f"{name}({', '.join(texts)})", "boolean")

    return rule


def _unix_date(scope: Scope, node: exp.Expr) -> Value:
    """The days since 1970."""
    day = scope.of_type(node.this, "date")
    return Value(f"CAST(({day} - DATE '1970-01-01') AS INTEGER)", "int")


def _unix(per_second: int) -> Callable[[Scope, exp.Expr], Value]:
    """A count since 1970, rounded down."""
    by = 1_000_000 // per_second

    def rule(scope: Scope, node: exp.Expr) -> Value:
        us = f"epoch_us({scope.of_type(node.this, 'timestamp')})"
        if by == 1:
            return Value(us, "bigint")
        return Value(f"(({us} - ((({us} % {by}) + {by}) % {by})) // {by})", "bigint")

    return rule


_BIT_NAMES: Mapping[type[exp.Expr], str] = {
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
}


def _aggregate(scope: Scope, node: exp.Expr, behind: str = "") -> Value:
    """An aggregate function, or row_number or lag; `behind` it may be FILTER and OVER."""
    inner = node.this
    match node:
        case exp.Count() if isinstance(inner, exp.Star):
            return Value(f"count(*){behind}", "bigint")
        case exp.Count() if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            return Value(f"count(DISTINCT {scope.key(inner.expressions[0])}){behind}", "bigint")
        case exp.Count() if not node.expressions and not isinstance(inner, exp.Distinct):
            return Value(f"count({scope.value(inner).sql}){behind}", "bigint")
        case exp.CountIf() if not behind.startswith(" FILTER"):
            return Value(f"count(*) FILTER (WHERE {scope.condition(inner)}){behind}", "bigint")
        case exp.Sum():
            # Of whole numbers. That of doubles depends on their order.
            summed = f"sum({scope.of_type(inner, *_INTEGRAL)}){behind}"
            return Value(f"CAST({summed} AS BIGINT)", "bigint")
        case exp.Min() | exp.Max() if isinstance(inner, exp.Struct) and not behind:
            # The record that is least or greatest, without a comparison of records.
            record, order = scope.value(inner), _order_of(node)
            keys = (f"{scope.value(f.expression).sql} {order}" for f in inner.expressions)
            return Value(f"first({record.sql} ORDER BY {', '.join(keys)})", record.type)
        case exp.Min() | exp.Max() | exp.First():
            value = scope.value(inner)
            if value.type == NULL:
                raise NotInKernel(f"it has {_text(node)}")
            return Value(f"{node.key}({value.sql}){behind}", value.type)
        case exp.LogicalAnd() | exp.LogicalOr():
            name = "bool_and" if isinstance(node, exp.LogicalAnd) else "bool_or"
            return Value(f"{name}({scope.condition(inner)}){behind}", "boolean")
        case exp.BitwiseAndAgg() | exp.BitwiseOrAgg() | exp.BitwiseXorAgg():
            value = scope.value(inner)
            if value.type not in _INTEGRAL:
                raise NotInKernel(f"it has {_text(node)}")
            return Value(f"{_BIT_NAMES[type(node)]}({value.sql}){behind}", value.type)
        case exp.RowNumber() if behind:
            return Value(f"CAST(row_number(){behind} AS INTEGER)", "int")
        case exp.Lag() if behind and len([a for a in node.args.values() if a]) == 1:
            value = scope.value(inner)
            return Value(f"lag({value.sql}){behind}", value.type)
    raise NotInKernel(f"it has {_text(node)}")


def _filter(scope: Scope, node: exp.Expr) -> Value:
    return _aggregate(scope, node.this, f" FILTER (WHERE {scope.condition(node.expression.this)})")


def _over(scope: Scope, node: exp.Expr) -> Value:
    """A window function. The compiler writes none that depends on the order of equal rows."""
    call, behind = node.this, ""
    if isinstance(call, exp.Filter):
        behind = f" FILTER (WHERE {scope.condition(call.expression.this)})"
        call = call.this
    alias = node.args.get("alias")
    window = scope.windows.get(alias.name.lower()) if alias is not None else node
    if window is None:
        raise NotInKernel(f"it has {_text(node)}")
    return _aggregate(scope, call, f"{behind} OVER ({scope.window(window)})")


def _order_of(call: exp.Expr) -> str:
    """The order in which what a minimum or maximum gives is the first."""
    return "ASC NULLS FIRST" if isinstance(call, exp.Min) else "DESC NULLS LAST"


def _record(scope: Scope, node: exp.Expr) -> Value:
    """`named_struct('name', value, …)`."""
    values = {part.name.lower(): scope.value(part.expression) for part in node.expressions}
    if NULL in (value.type for value in values.values()):
        raise NotInKernel(f"it has {_text(node)}")
    fields = ", ".join(
        f"{_has(name)} := ({value.sql} IS NOT NULL), {quoted(name)} := {value.sql}"
        for name, value in values.items()
    )
    return Value(f"struct_pack({fields})", Record.of({n: v.type for n, v in values.items()}))


def _extreme(name: str) -> Callable[[Scope, exp.Expr], Value]:
    """The least or greatest of values of one type, NULLs left out."""

    def rule(scope: Scope, node: exp.Expr) -> Value:
        values = [scope.value(v) for v in (node.this, *node.expressions)]
        type_ = _common(node, *(value.type for value in values))
        if type_ not in (*_INTEGRAL, "string", "date", "timestamp"):
            raise NotInKernel(f"it has {_text(node)}")
        return Value(f"{name}({', '.join(value.as_(type_) for value in values)})", type_)

    return rule


def _between(scope: Scope, node: exp.Expr) -> Value:
    first = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    last = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return Value(f"({scope.condition(first)} AND {scope.condition(last)})", "boolean")


def _field(scope: Scope, node: exp.Expr) -> Value:
    """`min(named_struct(…, 'v', x)).v`: x of the least row, by the other fields in turn."""
    call, only = node.this.unnest(), ""
    if node.expression.name != "v":
        raise NotInKernel(f"it has {_text(node)}")
    if isinstance(call, exp.Filter):
        only = f" FILTER (WHERE {scope.condition(call.expression.this)})"
        call = call.this
    if not isinstance(call, exp.Min | exp.Max) or not isinstance(call.this, exp.Struct):
        raise NotInKernel(f"it has {_text(node)}")
    *fields, last = (part.expression for part in call.this.expressions)
    order = _order_of(call)
    keys = ", ".join(f"{scope.value(each).sql} {order}" for each in (*fields, last))
    value = scope.value(last)
    return Value(f"first({value.sql} ORDER BY {keys}){only}", value.type)


def _anonymous(scope: Scope, node: exp.Expr) -> Value:
    name, arguments = str(node.this).lower(), node.expressions
    match name:
        case "pmod":
            return _pmod(scope, arguments)
        case "timestamp_micros":
            return Value(f"make_timestamptz({scope.of_type(arguments[0], 'bigint')})", "timestamp")
        case "shiftright" | "shiftleft":
            sign = ">>" if name == "shiftright" else "<<"
            shift = exp.BitwiseRightShift(this=arguments[0], expression=arguments[1])
            return _shift(sign)(scope, shift)
        case "try_add" | "try_subtract" | "try_multiply":
            sign = {"try_add": "+", "try_subtract": "-", "try_multiply": "*"}[name]
            pair = exp.Add(this=arguments[0], expression=arguments[1])
            return _arithmetic(sign, tried=True)(scope, pair)
        case "try_divide":
            return _divided(scope, exp.Div(this=arguments[0], expression=arguments[1]))
        case "try_mod":
            return _remainder(scope, exp.Mod(this=arguments[0], expression=arguments[1]))
        case "unix_date":
            return _unix_date(scope, exp.UnixDate(this=arguments[0]))
        case "count_if":
            return _aggregate(scope, exp.CountIf(this=arguments[0]))
    raise NotInKernel(f"it has {name}")


def _json(scope: Scope, node: exp.Expr) -> Value:
    """A failed record: not made here. If there is one, Spark computes the step again."""
    return Value("CAST(NULL AS VARCHAR)", "string")


_RULES: Mapping[type[exp.Expr], Callable[[Scope, exp.Expr], Value]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda scope, node: Value("TRUE" if node.this else "FALSE", "boolean"),
    exp.Null: lambda scope, node: Value("NULL", NULL),
    exp.Paren: lambda scope, node: scope.value(node.this),
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.Add: _arithmetic("+", tried=False),
    exp.Sub: _arithmetic("-", tried=False),
    exp.Mul: _arithmetic("*", tried=False),
    exp.SafeAdd: _arithmetic("+", tried=True),
    exp.SafeSubtract: _arithmetic("-", tried=True),
    exp.SafeMultiply: _arithmetic("*", tried=True),
    exp.Div: _divided,
    exp.SafeDivide: _divided,
    exp.IntDiv: _whole_division,
    exp.Mod: _remainder,
    exp.EQ: _compared("="),
    exp.NEQ: _compared("<>"),
    exp.LT: _compared("<"),
    exp.LTE: _compared("<="),
    exp.GT: _compared(">"),
    exp.GTE: _compared(">="),
    exp.NullSafeEQ: _compared("IS NOT DISTINCT FROM"),
    exp.And: _logic("AND"),
    exp.Or: _logic("OR"),
    exp.Not: lambda scope, node: Value(f"(NOT {scope.condition(node.this)})", "boolean"),
    exp.Is: _is,
    exp.Case: _choice,
    exp.If: _choice,
    exp.In: _listed,
    exp.BitwiseAnd: _bits("&"),
    exp.BitwiseOr: _bits("|"),
    exp.BitwiseXor: _bits("^"),
    exp.BitwiseLeftShift: _shift("<<"),
    exp.BitwiseRightShift: _shift(">>"),
    exp.Between: _between,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Struct: _record,
    exp.Coalesce: _coalesce,
    exp.Concat: _concat,
    exp.MD5: _md5,
    exp.SubstringIndex: _substring_index,
    exp.Contains: _text_test("contains"),
    exp.StartsWith: _text_test("starts_with"),
    exp.EndsWith: _text_test("ends_with"),
    exp.UnixDate: _unix_date,
    exp.UnixSeconds: _unix(1),
    exp.UnixMillis: _unix(1_000),
    exp.UnixMicros: _unix(1_000_000),
    exp.Count: _aggregate,
    exp.CountIf: _aggregate,
    exp.Sum: _aggregate,
    exp.Min: _aggregate,
    exp.Max: _aggregate,
    exp.LogicalAnd: _aggregate,
    exp.LogicalOr: _aggregate,
    exp.First: _aggregate,
    exp.BitwiseAndAgg: _aggregate,
    exp.BitwiseOrAgg: _aggregate,
    exp.BitwiseXorAgg: _aggregate,
    exp.Filter: _filter,
    exp.Window: _over,
    exp.Dot: _field,
    exp.JSONFormat: _json,
    exp.Anonymous: _anonymous,
}
"""What kernels can compute: a rule for each kind of node."""
