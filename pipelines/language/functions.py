"""The functions that an expression may use: an allow-list, as data.

A function is listed if its value is determined by its arguments alone: no clock, no chance, no
place, no order of rows. Spark's analyzer is no help in this: it calls `current_timestamp()`,
`first` and `sum` of doubles deterministic. A function that can raise under ANSI rules has a form
here that does not.

Every date and timestamp that is made here is in the years 1 to 9999, as those that are read are:
beyond them Spark overflows (`long overflow`) in the next operation, and Python shows no value.

Kinds of argument: a type of `medusa_core.columns`; `number`, `integral`, `any`; `text` (anything
that Spark turns into text by itself); `common` (all of them take one type); `day` (date or
timestamp), `array`; and constants: `digits`, `count`, `index`, `constant` and those checked as a
`pattern`, `replacement`, `format`, `parse_format`, `unit`, `path`. A last `?` marks an argument
that may be left out, `*` one that may be repeated or left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.suggest import did_you_mean
from pipelines.language.failure_causes import Failure, FailureCause


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


CONSTANT_KINDS = names(
    """
    digits count index constant pattern replacement format parse_format unit path
    """
)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A function of one row. `gives` is a type or `first`, `common`, `element`, `array`.

    `form` is its SQL that never raises and `fails` when it would have, over arguments that are not
    NULL; without them it cannot raise. An `eager` function looks at all its arguments, any other
    stops at the first NULL.
    """

    name: str
    takes: tuple[str, ...]
    gives: str
    form: str | None = None
    fails: Failure | None = None
    eager: bool = False
    tolerance_only: bool = False


def _rows(names: str, takes: str, gives: str, **more: object) -> list[Scalar]:
    return [Scalar(n, tuple(takes.split()), gives, **more) for n in names.split()]  # type: ignore[arg-type]


_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799
_YEARS = {
    "date": "BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    "timestamp": "BETWEEN TIMESTAMP '0001-01-01 00:00:00' "
    "AND TIMESTAMP '9999-12-31 23:59:59.999999'",
}


def within_years(sql: str, type_: str, *, is_text: bool = False) -> tuple[str, Failure]:
    """A date or timestamp, NULL outside the years 1 to 9999; and the failure that it is.

    `is_text`: it is read from a text, and is NULL if that is no such text.
    """
    inside = f"({sql} {_YEARS[type_]})"
    fails, beyond = f"{inside} IS NOT TRUE", FailureCause.TIME_OUT_OF_RANGE
    failure = Failure(fails, beyond)
    if is_text:
        failure = Failure.of_either(fails, f"{sql} IS NULL", FailureCause.INVALID_TEXT, beyond)
    return f"IF({inside}, {sql}, NULL)", failure


def _made(names: str, takes: str, gives: str, *, tried: str = "") -> list[Scalar]:
    """Functions that make a date or timestamp; `tried` names the form that gives NULL on text."""
    rows = []
    for name in names.split():
        form, fails = within_years(f"{tried or name}({{all}})", gives, is_text=bool(tried))
        never = name.startswith("try_")
        rows += _rows(name, takes, gives, form=form, fails=None if never else fails)
    return rows


def _counted(name: str, per_second: int) -> list[Scalar]:
    """A timestamp from a count since 1970, which overflows if it is not looked at before."""
    low, high = _FIRST_SECOND * per_second, (_LAST_SECOND + 1) * per_second - 1
    inside = f"({{0}} BETWEEN {low}L AND {high}L)"
    form = f"IF({inside}, {name}({{0}}), NULL)"
    fails = Failure(f"(NOT {inside})", FailureCause.TIME_OUT_OF_RANGE)
    return _rows(name, "integral", "timestamp", form=form, fails=fails)


_TEXT = [
    *_rows("upper lower ucase lcase reverse initcap", "string", "string"),
    *_rows("trim ltrim rtrim btrim", "string", "string"),
    *_rows("length char_length character_length len octet_length bit_length", "string", "int"),
    *_rows("ascii", "string", "int"),
    *_rows("chr char", "integral", "string"),
    *_rows("substring substr", "string int int?", "string"),
    *_rows("left right", "string int", "string"),
    *_rows("concat", "text text*", "string"),
    *_rows("replace", "string string string?", "string"),
    *_rows("translate", "string string string", "string"),
    *_rows("instr find_in_set levenshtein", "string string", "int"),
    *_rows("locate position", "string string", "int"),
    *_rows("startswith endswith contains", "string string", "boolean"),
    *_rows("substring_index", "string string int", "string"),
    *_rows("lpad rpad", "string count constant?", "string"),
    *_rows("repeat", "string count", "string"),
    *_rows("split_part", "string string index", "string"),
    *_rows("split", "string pattern", "array<string>"),
    *_rows("regexp_extract", "string pattern count?", "string"),
    *_rows("regexp_replace", "string pattern replacement", "string"),
    *_rows("regexp_like", "string pattern", "boolean"),
    *_rows("regexp_count regexp_instr", "string pattern", "int"),
    *_rows("get_json_object", "string path", "string"),
    *_rows("md5 sha1 sha", "string", "string"),
    *_rows("sha2", "string count", "string"),
    *_rows("crc32", "string", "bigint"),
    *_rows("hash", "any any*", "int", eager=True),
    *_rows("xxhash64", "any any*", "bigint", eager=True),
    *_rows("url_encode", "string", "string"),
]
_NUMBERS = [
    *_rows("sign signum sqrt cbrt exp expm1 ln log10 log2 log1p rint", "number", "double"),
    *_rows("log", "number number?", "double"),
    *_rows("pow power", "number number", "double"),
    *_rows("degrees radians", "number", "double"),
    *_rows("sin cos tan asin acos atan sinh cosh tanh", "number", "double", tolerance_only=True),
    *_rows("atan2 hypot", "number number", "double", tolerance_only=True),
    *_rows("isnan", "number", "boolean", eager=True),
    *_rows("shiftleft shiftright shiftrightunsigned", "integral int", "first"),
    *_rows("bit_count", "integral", "int"),
    *_rows("pi e", "", "double"),
]
_TIMES = [
    *_rows("year quarter month day dayofmonth dayofweek", "day", "int"),
    *_rows("weekday dayofyear weekofyear", "day", "int"),
    *_rows("hour minute second", "timestamp", "int"),
    *_rows("last_day", "day", "date"),
    *_made("date_add dateadd date_sub", "day int", "date"),
    *_rows("datediff date_diff", "day day", "int"),
    *_rows("trunc", "day unit", "date"),
    *_rows("date_trunc", "unit timestamp", "timestamp"),
    *_rows("unix_seconds unix_millis unix_micros", "timestamp", "bigint"),
    *_counted("timestamp_seconds", 1),
    *_counted("timestamp_millis", 1_000),
    *_counted("timestamp_micros", 1_000_000),
    *_rows("unix_date", "date", "int"),
    *_made("date_from_unix_date", "int", "date"),
    *_rows("date_format", "day format", "string"),
    *_made("to_timestamp try_to_timestamp", "string parse_format", "timestamp",
           tried="try_to_timestamp"),
    *_made("to_date try_to_date", "string parse_format?", "date", tried="try_to_date"),
]  # fmt: skip
_ARRAYS = [
    *_rows("array", "common common*", "array", eager=True),
    *_rows("size cardinality array_size", "array", "int"),
    *_rows("array_contains", "array any", "boolean"),
    *_rows("array_position", "array any", "bigint"),
    *_rows("array_join", "array constant constant?", "string"),
    *_rows("array_distinct sort_array array_sort", "array", "first"),
    *_rows("array_max array_min", "array", "element"),
    *_rows("get", "array int", "element"),
    *_rows("try_element_at", "array index", "element"),
    *_rows("element_at", "array index", "element",
           form="try_element_at({0}, {1})",
           fails=Failure("abs({1}) > size({0})", FailureCause.NO_SUCH_ELEMENT)),
]  # fmt: skip
_EITHER = [
    *_rows("greatest least", "common common common*", "common", eager=True),
]

SCALARS = {f.name: f for f in (*_TEXT, *_NUMBERS, *_TIMES, *_ARRAYS, *_EITHER)}

# Compiled by rules of their own in `expressions.py`: branches, rounding, what can fail in its own
# way, and the spellings of operators.
SPECIAL = names(
    """
    if coalesce nvl ifnull nvl2 nullif isnull isnotnull equal_null abs negative round bround
    floor ceil ceiling mod pmod try_add try_subtract try_multiply try_divide try_mod
    concat_ws nanvl like rlike regexp
    """
)

# Aggregates, by what happens to their value when the rows come in another order.
EXACT = names(
    """
    count count_if sum avg mean min max bool_and every bool_or some any bit_and bit_or
    bit_xor collect_set
    """
)
EXACT_BY_REWRITE = names(
    """
    first first_value last last_value min_by max_by collect_list array_agg
    """
)
TOLERANCE_ONLY = names(
    """
    stddev std stddev_samp stddev_pop variance var_samp var_pop skewness kurtosis corr
    covar_pop covar_samp median percentile percentile_approx approx_percentile
    approx_count_distinct
    """
)
AGGREGATES = EXACT | EXACT_BY_REWRITE | TOLERANCE_ONLY


def _because(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


REFUSED: dict[str, str] = {
    **_because("gives another value each time it is computed",
               "rand random randn uuid uniform randstr shuffle"),
    **_because("reads the clock: use event time, `window_start` of an aggregate or the source's "
               "time column",
               "now current_timestamp current_date curdate current_time localtimestamp localtime "
               "proctime mz_now current_row_timestamp"),
    **_because("depends on which file and task a record is in",
               "input_file_name input_file_block_start input_file_block_length "
               "monotonically_increasing_id spark_partition_id"),
    **_because("may pick another row each time: use first(x), min(x) or max(x)", "any_value mode"),
    **_because("runs code that no plan can fingerprint",
               "reflect java_method try_reflect python_worker_logs"),
    **_because("says who or where, not what",
               "current_user user session_user current_catalog current_database current_schema "
               "current_path current_timezone version"),
    **_because("makes several rows of one: use a function box",
               "explode explode_outer posexplode posexplode_outer inline inline_outer stack "
               "json_tuple"),
    **_because("numbers rows of a window over the whole stream, which has no end",
               "row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value"),
    **_because("raises an error on purpose: leave bad records to the quarantine",
               "raise_error assert_true"),
    **_because("makes a window: write it as `size` and `advance`, or `every` and `zone`, of an "
             "Aggregate",
               "window window_time time_bucket"),
    **_because("is written as a table function: write FROM TUMBLE(…), HOP(…) or SESSION(…) in "
             "SQL, and window_start",
             "tumble hop session tumble_start tumble_end hop_start hop_end session_start "
             "session_end"),
    **_because("takes rows in the order in which they arrived: use max_by(x, t) or min_by(x, t) "
             "with a column of time, or last(x) or first(x) in a window",
             "latest_by_offset earliest_by_offset"),
    **_because("gives several values: rank the rows of a window with a Rank, in SQL ROW_NUMBER",
             "topk topkdistinct"),
    **_because("reads a field of a JSON text: use get_json_object(x, '$.name')",
             "json_value extractjsonfield json_extract"),
    "session_window": "makes a session window: write a Session with `gap` and `length_max`",
    **_because("reckons with a time zone, but times are UTC: for an offset that does not change "
               "write timestamp_micros(unix_micros(x) + 3600000000L)",
               "from_utc_timestamp to_utc_timestamp convert_timezone"),
    **_because("is an estimate that no other engine can check: use count(distinct x)",
               "hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg"),
    "count_distinct": "is a function of DataFrames: write count(distinct x)",
    **_because("makes a value with fields, which no column can have",
               "struct named_struct map map_from_arrays map_from_entries from_json parse_json"),
    **_because("depends on the order of the rows: use array_join(collect_list(x), ',')",
               "listagg string_agg"),
    "from_unixtime": "can overflow: use date_format(timestamp_seconds(x), '…')",
    "unix_timestamp": "reads the clock or fails on text: use unix_seconds(cast(x as timestamp))",
    "to_unix_timestamp": "fails on text: use unix_seconds(cast(x as timestamp))",
}  # fmt: skip


def suggestion(name: str, known: frozenset[str]) -> str:
    """`; did you mean 'count'?`, or nothing if no known name is near."""
    near = did_you_mean(name, sorted(known))
    return f"; {near}" if near else ""
