"""The type of every expression that a box may hold, by the rules of `spark_types`.

Functions are a table from the type of the result to names, with a rule where the type depends on
the arguments. Arguments are not checked: a deployed network has passed the compiler. An
expression that the table does not cover has no type (NoSuchType), and its stream is not
certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import reduce

from sqlglot import exp

from medusa_core.columns import Column
from pipelines.quality.spark_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    VOID,
    NoSuchType,
    Operand,
    SparkType,
    arithmetic_type,
    array_of,
    average_type,
    column_type,
    least_common,
    literal_type,
    rounded_type,
    sum_type,
    type_named,
    whole_type,
)

ARITHMETIC: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
TRIED = {
    "try_add": "+",
    "try_subtract": "-",
    "try_multiply": "*",
    "try_divide": "/",
    "try_mod": "%",
    "mod": "%",
}
"""Functions that are another form of an operator."""

_CONDITIONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And,
    exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape,
)  # fmt: skip
_OF_ONE_TYPE: Mapping[SparkType, str] = {
    BOOLEAN: """
        startswith endswith contains regexp_like rlike regexp like isnan isnull isnotnull equal_null
        array_contains bool_and every bool_or some any
    """,
    INT: """
        length char_length character_length len octet_length bit_length ascii instr find_in_set
        levenshtein locate position regexp_count regexp_instr hash bit_count year quarter month day
        dayofmonth dayofweek weekday dayofyear weekofyear hour minute second datediff date_diff
        unix_date size cardinality array_size
    """,
    BIGINT: """
        crc32 xxhash64 unix_seconds unix_millis unix_micros array_position count count_if
        approx_count_distinct
    """,
    DOUBLE: """
        sign signum sqrt cbrt exp expm1 ln log10 log2 log1p rint log pow power degrees radians sin
        cos tan asin acos atan sinh cosh tanh atan2 hypot pi e nanvl stddev std stddev_samp
        stddev_pop variance var_samp var_pop skewness kurtosis corr covar_pop covar_samp median
        percentile
    """,
    STRING: """
        upper lower ucase lcase reverse initcap trim ltrim rtrim btrim chr char substring substr
        left right concat concat_ws replace translate substring_index lpad rpad repeat split_part
        regexp_extract regexp_replace get_json_object md5 sha1 sha sha2 url_encode date_format
        array_join
    """,
    DATE: """
        last_day date_add dateadd date_sub trunc date_from_unix_date to_date try_to_date
    """,
    TIMESTAMP: """
        date_trunc timestamp_seconds timestamp_millis timestamp_micros to_timestamp
        try_to_timestamp
    """,
    array_of(STRING): "split",
}
_OF_FIRST = """
    nullif abs negative shiftleft shiftright shiftrightunsigned array_distinct sort_array array_sort
    bit_and bit_or bit_xor min max first first_value last last_value min_by max_by
    percentile_approx approx_percentile
"""
_OF_ALL = "coalesce nvl ifnull greatest least pmod"
_OF_ELEMENT = "get element_at try_element_at array_max array_min"

Rule = Callable[[list[SparkType]], SparkType]


def _element(types: list[SparkType]) -> SparkType:
    if types[0].element is None:
        raise NoSuchType(f"an element of {types[0]}")
    return types[0].element


def common(types: Iterable[SparkType]) -> SparkType:
    """The least common type of several."""
    return reduce(least_common, types, VOID)


def _always(type_: SparkType) -> Rule:
    return lambda types: type_


def _rules() -> Mapping[str, Rule]:
    rules: dict[str, Rule] = {}
    for type_, names in _OF_ONE_TYPE.items():
        rules |= dict.fromkeys(names.split(), _always(type_))
    rules |= dict.fromkeys(_OF_FIRST.split(), lambda types: types[0])
    rules |= dict.fromkeys(_OF_ALL.split(), common)
    rules |= dict.fromkeys(_OF_ELEMENT.split(), _element)
    rules |= dict.fromkeys(("floor", "ceil", "ceiling"), lambda types: whole_type(types[0]))
    rules |= dict.fromkeys(("avg", "mean"), lambda types: average_type(types[0]))
    lists = ("collect_list", "array_agg", "collect_set")
    return rules | {
        "sum": lambda types: sum_type(types[0]),
        "if": lambda types: common(types[1:]),
        "nvl2": lambda types: common(types[1:]),
        "array": lambda types: array_of(common(types)),
        **dict.fromkeys(lists, lambda types: array_of(types[0])),
    }


RULES = _rules()
FUNCTIONS = frozenset({*RULES, *TRIED, "round", "bround"})
"""Every function that has a type here."""


class ExpressionTypes:
    """The types of parsed expressions over columns, by name."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = {name: column_type(column) for name, column in columns.items()}
        # The nodes are kept with their types: an id is of a node only while the node is alive.
        self._known: dict[int, tuple[exp.Expr, SparkType]] = {}

    def of(self, node: exp.Expr) -> SparkType:
        """The type of a node; NoSuchType if the rules give it none."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = node, self._find(node)
        return known[1]

    def operand(self, node: exp.Expr) -> Operand:
        """The node as an operand of arithmetic."""
        value = constant_of(node)
        return Operand(self.of(node), value if type(value) is int else None)

    def _find(self, node: exp.Expr) -> SparkType:
        if isinstance(node, _CONDITIONS):
            return BOOLEAN
        if type(node) in ARITHMETIC:
            return self._arithmetic(ARITHMETIC[type(node)], node.this, node.expression)
        value = constant_of(node)
        if isinstance(value, int | float | Decimal) and type(value) is not bool:
            return BIGINT if suffix_of(node) == "L" else literal_type(value)
        match node:
            case exp.Column():
                return self._columns[node.name.lower()]
            case exp.Null():
                return VOID
            case exp.Boolean():
                return BOOLEAN
            case exp.Literal() | exp.RawString() | exp.DPipe():
                return STRING
            case exp.IntDiv():
                return BIGINT
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor():
                return least_common(self.of(node.this), self.of(node.expression))
            case exp.Case() | exp.If():
                return common(self.of(branch) for branch in branches_of(node))
            case exp.Cast():
                return type_named(node.args["to"].sql(dialect="spark").lower())
            case exp.Bracket():
                return _element([self.of(node.this)])
            case exp.Anonymous():
                return self._function(str(node.this).lower(), list(node.expressions))
            case exp.Distinct():
                return self.of(node.expressions[0])
            case (
                exp.Paren() | exp.Neg() | exp.BitwiseNot() | exp.BitwiseLeftShift()
                | exp.BitwiseRightShift() | exp.Filter() | exp.IgnoreNulls() | exp.RespectNulls()
            ):  # fmt: skip
                return self.of(node.this)
            case exp.Star():
                return VOID
        raise NoSuchType(f"{node.key.upper()} is not known to the oracle")

    def _arithmetic(self, sign: str, left: exp.Expr, right: exp.Expr) -> SparkType:
        return arithmetic_type(sign, self.operand(left), self.operand(right))

    def _function(self, name: str, arguments: list[exp.Expr]) -> SparkType:
        if name in TRIED:
            return self._arithmetic(TRIED[name], *arguments)
        if name in ("round", "bround"):
            digits = constant_of(arguments[1]) if len(arguments) > 1 else 0
            return rounded_type(self.of(arguments[0]), int(str(digits)))
        if name not in RULES:
            raise NoSuchType(f"{name} is not known to the oracle")
        return RULES[name]([self.of(argument) for argument in arguments])


def branches_of(node: exp.Expr) -> list[exp.Expr]:
    """The values that CASE or IF chooses from."""
    is_case = isinstance(node, exp.Case)
    whens = node.args["ifs"] if is_case else [node]
    last = node.args.get("default" if is_case else "false")
    return [when.args["true"] for when in whens] + ([] if last is None else [last])


def suffix_of(node: exp.Expr) -> str:
    """L or D for a number with that suffix, which the parser reads as a cast; else nothing."""
    if isinstance(node, exp.Neg):
        node = node.this
    if not isinstance(node, exp.TryCast) or node.args.get("safe") or _number(node.this) is None:
        return ""
    match node.args["to"].this:
        case exp.DType.BIGINT if str(node.this.this).isdigit():
            return "L"
        case exp.DType.DOUBLE:
            return "D"
    return ""


class NotWritten:
    """The constant of a node whose value is not written out."""


NOT_WRITTEN = NotWritten()


def constant_of(node: exp.Expr) -> object:
    """The value of a node that is written out: NULL, a boolean, a text or a number."""
    match node:
        case exp.Paren():
            return constant_of(node.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.RawString():
            return str(node.this)
        case exp.Literal() if node.args.get("is_string"):
            return str(node.this)
    sign = "-" if isinstance(node, exp.Neg) else ""
    inner = node.this if sign else node
    suffix = suffix_of(inner)
    text = _number(inner.this if suffix else inner)
    if text is None:
        return NOT_WRITTEN
    if suffix == "D" or "e" in text.lower():
        return float(sign + text)
    return Decimal(sign + text) if "." in text else int(sign + text)


def _number(node: object) -> str | None:
    """The text of a number without a suffix."""
    is_number = isinstance(node, exp.Literal) and not node.args.get("is_string")
    return str(node.this) if is_number and isinstance(node, exp.Literal) else None
