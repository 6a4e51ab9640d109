"""A network with Resamples, replayed from a recorded file: certificates, and cuts into steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from medusa_core.network import Aggregate, Network, Output, Resample, Source
from pipelines.quality.recompute import DUCKDB
from pipelines.spark import compiler
from tests.quality.homes import Checked, checked_home, converged
from tests.replaying import Replayer, digests
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

READINGS = {"at_us": "bigint", "sensor": "string", "value": "double", "state": "string"}
OUTPUTS = ("previous_rows", "linear_rows", "means")
FEW = ("previous_rows",)
"""The outputs that `make test` computes."""


def a_network() -> Network:
    """Readings of sensors every 4 s from the last or nearest 12 s; windows behind."""
    return Network(
        name="sensors",
        sources=(Source(name="readings", columns=READINGS, time="at_us"),),
        boxes=(
            *(
                Resample(name=f"{method}_values", input="readings", by=("sensor",), step="4s",
                         max_age="12s", method=method, columns=("value", "state"))
                for method in ("previous", "linear")
            ),
            Aggregate(name="counted", input="linear_values", size="20s", advance="10s",
                      group_by=("sensor",), columns={"n": "count(value)", "top": "max(value)"}),
        ),
        outputs=(
            *(Output(name=f"{m}_rows", input=f"{m}_values") for m in ("previous", "linear")),
            Output(name="means", input="counted"),
        ),
    )  # fmt: skip


def write_file(folder: Path) -> dict[str, list[Path]]:
    """Readings around 1970 with NULLs, equal records, several at one time, and a gap of minutes."""
    folder.mkdir(parents=True)
    random = Random(13)
    lines = [
        f"{at_s * 1_000_000 + random.choice((0, 0, 1, -1, 333_333))},"
        f"{random.choice(['a', 'b', ''])},{random.choice(['0.1', '3.7', '1e9', '-2.5', ''])},"
        f"{random.choice(['on', 'off', ''])}"
        for at_s in (
            random.choice((random.randrange(-120, 0), random.randrange(200, 300)))
            for _ in range(150)
        )
    ]
    text = "\n".join(["at_us,sensor,value,state", *lines, *random.sample(lines, 10)]) + "\n"
    (folder / "readings.csv").write_text(text)
    return {"readings": [folder / "readings.csv"]}


@pytest.fixture(scope="module")
def inputs(folder: Path) -> dict[str, list[Path]]:
    return write_file(folder / "resamples_input")


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    inputs: dict[str, list[Path]],
    interpreted: None,
) -> Iterator[Checked]:
    replayer = Replayer(postgres_server, spark, folder / "resamples")
    with checked_home(
        replayer, a_network(), inputs, width_s=10, records_per_step_max=80, few=FEW
    ) as checked:
        yield checked


@pytest.mark.sweep
def test_certificates_of_resamples_are_made_by_duckdb(replayed: Checked) -> None:
    for made in converged(replayed, OUTPUTS, FEW):
        assert set(made.engines.values()) == {DUCKDB}
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    long_but(
        0,
        [
            ("+ 12000000L, next.t - 1", "+ 12000000L, next.t"),
            ("greatest(record.t + 1, next.t - 12000000L)", "(record.t + 1)"),
            ("sample + 12000000L", "sample + 11999999L"),
            ("PARTITION BY k0", "PARTITION BY 1"),
        ],
    ),
)
def test_a_fault_in_the_compiled_resample_is_found_by_its_certificate(
    replayer: Replayer,
    inputs: dict[str, list[Path]],
    monkeypatch: pytest.MonkeyPatch,
    right: str,
    wrong: str,
) -> None:
    compile_fragment = compiler._Compiler.compile

    def compile_wrongly(self: compiler._Compiler) -> compiler.CompiledFragment:
        made = compile_fragment(self)
        statements = tuple(
            replace(one, sql=one.sql.replace(right, wrong)) for one in made.statements
        )
        assert any(right in sql for sql in (made.sql, *(s.sql for s in made.statements)))
        return replace(made, sql=made.sql.replace(right, wrong), statements=statements)

    monkeypatch.setattr(compiler._Compiler, "compile", compile_wrongly)
    with checked_home(replayer, a_network(), inputs, width_s=10) as checked:
        assert not checked.run().passed


@pytest.mark.parametrize("records_per_step_max", long_but(0, [250_000, 25, 1]))
def test_i1_i2_the_rows_of_resamples_are_the_same_however_steps_are_cut(
    replayer: Replayer,
    replayed: Checked,
    inputs: dict[str, list[Path]],
    records_per_step_max: int,
) -> None:
    whole = digests(replayed.home, a_network())
    with checked_home(
        replayer, a_network(), inputs, width_s=10, records_per_step_max=records_per_step_max
    ) as other:
        assert digests(other.home, a_network()) == whole
