"""Faults planted in the compiler: the certificates of a real replay fail, and name law L2.

The oracle shares no rule of types, no function and no cast with the compiler, so that it does not
repeat the compiler's faults. Each fault meets one stream of the network, and every stream passes
without them (`make test-long`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import exp

from medusa_core.certificates import Suite
from medusa_core.network import Aggregate, Map, Network, Output, Source
from pipelines.cli.main import main
from pipelines.language import coercion, functions, leaves, sql_operators
from pipelines.language.aggregates import Aggregates
from pipelines.language.failure_causes import Failure, FailureCause
from pipelines.language.sql_operators import Operators
from pipelines.quality.check_run import Outcome
from tests.quality.homes import SECOND_US, Checked, checked_home, found
from tests.replaying import Replayer, parquet_files
from tests.sweeps import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

EVENTS = {"ts_us": "bigint", "who": "string", "n": "int", "m": "int", "big": "bigint",
          "amount": "decimal(10,2)"}  # fmt: skip


def events() -> pa.Table:
    """Small numbers, some NULL, and texts of which some are numbers."""
    chosen = Random(7)
    rows = [
        {
            "ts_us": at * SECOND_US // 2,
            "who": chosen.choice(["a", "Bc", "12", "7", None]),
            "n": chosen.choice([None, -4, 1, 2]),
            "m": chosen.choice([3, 4, -1]),
            "big": chosen.choice([None, 5, 10, -1]),
            "amount": chosen.choice([None, Decimal("1.00"), Decimal("-20.25")]),
        }
        for at in range(120)
    ]
    schema = pa.schema([("ts_us", pa.int64()), ("who", pa.string()), ("n", pa.int32()),
                        ("m", pa.int32()), ("big", pa.int64()),
                        ("amount", pa.decimal128(10, 2))])  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """A fault of the compiler, the stream and expression that meet it, what the certificate says.

    A fault of a value has a stream of its own, so that no other fault can have made it fail.
    """

    plant: Callable[[Patch], None]
    stream: str
    expression: str
    output: str = "no row differs"

    @property
    def column(self) -> str:
        return self.plant.__name__


def int_plus_bigint_is_int(patch: Patch) -> None:
    right = coercion.arithmetic_type

    def wrong(sign: str, a: str, b: str) -> tuple[str, bool] | None:
        return ("int", False) if {a, b} == {"int", "bigint"} else right(sign, a, b)

    patch.setattr(coercion, "arithmetic_type", wrong)


def a_decimal_quotient_has_fewer_digits(patch: Patch) -> None:
    right = coercion.arithmetic_type

    def wrong(sign: str, a: str, b: str) -> tuple[str, bool] | None:
        is_quotient = sign == "/" and coercion.is_decimal(a)
        return ("decimal(12,4)", True) if is_quotient else right(sign, a, b)

    patch.setattr(coercion, "arithmetic_type", wrong)


def an_integer_literal_is_a_bigint(patch: Patch) -> None:
    right = leaves.literal_type
    patch.setattr(leaves, "literal_type", lambda v: "bigint" if type(v) is int else right(v))


def a_length_is_a_bigint(patch: Patch) -> None:
    wrong = replace(functions.SCALARS["length"], gives="bigint")
    patch.setitem(functions.SCALARS, "length", wrong)


def a_sum_of_decimals_has_no_more_digits(patch: Patch) -> None:
    right = Aggregates.sum
    wrong = "decimal(10,2)"
    patch.setattr(Aggregates, "sum", lambda self, call: replace(right(self, call), type=wrong))


def a_quotient_of_integers_is_an_integer(patch: Patch) -> None:
    right = Operators.arithmetic

    def wrong(self: Operators, operator: Any, a: Any, b: Any, **more: Any) -> Any:
        is_met = operator[0] == "/" and a.type == b.type == "int"
        return self.whole_division(a, b) if is_met else right(self, operator, a, b, **more)

    patch.setattr(Operators, "arithmetic", wrong)


def a_product_is_a_sum(patch: Patch) -> None:
    patch.setitem(sql_operators._ARITHMETIC, exp.Mul, ("+", "try_add"))


def upper_is_lower(patch: Patch) -> None:
    wrong = replace(functions.SCALARS["upper"], form="lower({0})")
    patch.setitem(functions.SCALARS, "upper", wrong)


def a_text_that_is_not_a_number_does_not_fail(patch: Patch) -> None:
    never = Failure("false", FailureCause.INVALID_TEXT)
    patch.setattr(leaves, "_tried_cast", lambda x, to: (f"try_cast({x.sql} AS {to})", never))


def the_first_record_is_the_last(patch: Patch) -> None:
    right = Aggregates.by_order

    def wrong(self: Aggregates, call: Any, smallest: str, *more: Any) -> Any:
        return right(self, call, "max" if smallest == "min" else "min", *more)

    patch.setattr(Aggregates, "by_order", wrong)


def an_average_counts_nulls(patch: Patch) -> None:
    right = Aggregates.average

    def wrong(self: Aggregates, call: Any) -> Any:
        term = right(self, call)
        return replace(term, sql=term.sql.replace(f"count({call.first.sql})", "count(*)"))

    patch.setattr(Aggregates, "average", wrong)


ALL_FAULTS = (
    Fault(int_plus_bigint_is_int, "types", "n + big", "is int, and bigint by the rules"),
    Fault(a_sum_of_decimals_has_no_more_digits, "sums", "sum(amount)",
          "is decimal(10,2), and decimal(20,2) by the rules"),
    Fault(the_first_record_is_the_last, "firsts", "first(n)"),
    Fault(a_decimal_quotient_has_fewer_digits, "types", "amount / n",
          "is decimal(12,4), and decimal(21,13) by the rules"),
    Fault(an_integer_literal_is_a_bigint, "types", "coalesce(n, 1)",
          "is bigint, and int by the rules"),
    Fault(a_length_is_a_bigint, "types", "length(who)", "is bigint, and int by the rules"),
    Fault(a_quotient_of_integers_is_an_integer, "types", "n / m",
          "is bigint, and double by the rules"),
    Fault(a_product_is_a_sum, "products", "n * m"),
    Fault(upper_is_lower, "shouts", "upper(who)"),
    Fault(a_text_that_is_not_a_number_does_not_fail, "numbers", "cast(who as int)"),
    Fault(an_average_counts_nulls, "means", "avg(big)"),
)  # fmt: skip
FAULTS = ALL_FAULTS[: examples(3, len(ALL_FAULTS))]
"""The faults that are planted here: two of types and one of a value in `make test`."""
STREAMS = tuple(dict.fromkeys(fault.stream for fault in FAULTS))
AGGREGATES = ("sums", "firsts", "means")


def box_of(stream: str) -> Aggregate | Map:
    """The box of a stream, with a column for each of its faults."""
    name = f"{stream}_box"
    columns = {f.column: f.expression for f in FAULTS if f.stream == stream}
    if stream not in AGGREGATES:
        return Map(name=name, input="events", columns=columns)
    return Aggregate(name=name, input="events", size="20s", group_by=("who",), columns=columns)


NETWORK = Network(
    name="typed",
    sources=(Source(name="events", columns=EVENTS, time="ts_us"),),
    boxes=tuple(map(box_of, STREAMS)),
    outputs=tuple(Output(name=stream, input=f"{stream}_box") for stream in STREAMS),
)


@pytest.fixture(scope="module")
def replayer(
    postgres_server: EmbeddedServer, spark: SparkSession, folder: Path
) -> Callable[[str], Any]:
    """Replays the network in a home of its own."""
    files = parquet_files(folder / "typed", events())

    def replayed(name: str) -> Any:
        replayer = Replayer(postgres_server, spark, folder / name)
        return checked_home(replayer, NETWORK, {"events": files}, width_s=10,
                            records_per_step_max=examples(300, 50))  # fmt: skip

    return replayed


@pytest.fixture(scope="module")
def faulty(replayer: Callable[[str], Any]) -> Iterator[Checked]:
    """A home whose streams were computed by a compiler with all of the faults."""
    with pytest.MonkeyPatch.context() as patch:
        for fault in FAULTS:
            fault.plant(patch)
        with replayer("faulty") as checked:
            yield checked


@pytest.fixture(scope="module")
def outcome(faulty: Checked) -> Outcome:
    """What the checks find in that home."""
    return faulty.run()


@pytest.mark.long
def test_without_a_fault_every_certificate_passes(replayer: Callable[[str], Any]) -> None:
    with replayer("without_faults") as checked:
        outcome = checked.run()
    assert outcome.passed, [one.broken for one in outcome.found]
    assert outcome.not_recomputed == ()
    for stream in STREAMS:
        figures = found(outcome, stream, Suite.CONVERGED).certificate.figures
        assert figures["final_rows"], stream
        assert figures["columns_of_another_type"] == 0


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.column)
def test_a_fault_in_the_compiler_makes_the_certificate_fail(outcome: Outcome, fault: Fault) -> None:
    converged = found(outcome, fault.stream, Suite.CONVERGED)
    assert converged.certificate.law == "L2"
    assert not converged.certificate.passed
    is_type = fault.output.endswith("by the rules")
    output = f"{fault.column} {fault.output}" if is_type else fault.output
    assert any(output in sentence for sentence in converged.broken), converged.broken


@pytest.mark.long
def test_the_command_fails_for_a_column_of_another_type_and_says_which(
    faulty: Checked,
    postgres_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(faulty.home.directory))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", postgres_server.superuser_url())
    assert main(["quality", "run", "sums"]) == 1
    printed = capsys.readouterr().out
    assert "sums, L2: each column has the type" in printed
    assert "has_no_more_digits is decimal(10,2), and decimal(20,2) by the rules" in printed
