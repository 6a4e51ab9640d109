"""A buyer has its seller, in a folder and a server of its own, run boxes, and reads the rows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.operations.partner_management import export_partner
from tests.federation.test_partner_streams import apply, join, write
from tests.partners.offices import Office, office
from tests.waiting import until

SECONDS_MAX, END_S_MAX = 600, 60
IN_FORCE = "SELECT FROM medusa_api.contract_in_force"
CONTRACT = """
contract: counts_for_beta
kind: content
payer: beta
provider: alpha
currency: EUR
valid: {from: 2024-01-01T00:00:00Z, until: 2096-01-01T00:00:00Z}
settlement: 1d
notice: 1s
stream: counted
price: 0.001
per: record
availability: {recovery: precise, method: upstream_backup}
hold_max: 1d
boxes: [filter]
load_max: 2
"""
COUNTS = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="counts",
    sources=(Source(name="connections", columns={"seq": "bigint", "ts_us": "bigint",
                    "orig_h": "string", "resp_p": "int"}, time="ts_us"),),
    boxes=(Aggregate(name="each", input="connections", size="1s", group_by=("orig_h",),
                     columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="each"),),
    bucket="1s",
)
"""
COLUMNS = '{"window_start": "timestamp", "orig_h": "string", "n": "bigint"}'
BOXES = f"""
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="mine",
    sources=(Source(name="s", columns={COLUMNS}, stream="alpha/counted"),),
    boxes=(Filter(name="several", input="s", cases={{"yes": "n > 1"}}),),
    outputs=(Output(name="busy", input="several"),),
    bucket="1s",
)
"""
READS = f"""
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="reads",
    sources=(Source(name="bought", columns={COLUMNS}, stream="alpha/beta__busy"),),
    boxes=(Filter(name="all", input="bought", cases={{"yes": "n > 0"}}),),
    outputs=(Output(name="received", input="all"),),
    bucket="1s",
)
"""
SOLD, BOUGHT = "counted", "received"
"""The stream that alpha sells, and what beta makes of the rows that it has received."""


@contextmanager
def running(office: Office, log: Path) -> Iterator[subprocess.Popen[str]]:
    """`medusa run` of an office whose server is running."""
    with log.open("w") as output, subprocess.Popen(
        office.command("run"), env=office.environment, cwd=office.contracts.parent,
        stdout=output, stderr=output, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(END_S_MAX)


def done(office: Office, *arguments: str) -> str:
    ran = office.run(*arguments)
    assert ran.returncode == 0, (arguments, ran.stdout, ran.stderr)
    return ran.stdout


def definitions(office: Office) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done(office, "contract", "definitions", "--json"))[
        "definitions"
    ]
    return found


def rows(office: Office, stream: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        done(office, "read", stream, "--limit", "1_000_000", "--json")
    )["rows"]
    return found


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("window_start", "orig_h", "n"))


@pytest.mark.long
def test_the_boxes_of_a_buyer_run_at_its_seller_and_the_buyer_reads_their_rows(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        alpha, beta = (
            stack.enter_context(office(postgres_server, tmp_path / name, name))
            for name in ("alpha", "beta")
        )
        write(alpha, "participants/alpha.yaml",
              "participant: alpha\nruns: [{network: networks/counts.py, fragments: [main], "
              "sources: [connections]}]\n")  # fmt: skip
        write(alpha, "networks/counts.py", COUNTS)
        write(alpha, "streams/connections.yaml",
              "stream: connections\nsource: {kind: generate, rate_per_s: 30, sources: 20}\n"
              )  # fmt: skip
        for one in (alpha, beta):
            apply(one)
        join(alpha, beta)
        export_partner(alpha.settings, None, "beta", alpha.contracts)
        for one in (alpha, beta):
            write(one, "bilateral/counts_for_beta.yaml", CONTRACT)
            apply(one)
        stack.enter_context(running(alpha, tmp_path / "alpha.log"))
        with running(beta, tmp_path / "beta.log"):
            until(
                lambda: all(one.sql(IN_FORCE) for one in (alpha, beta)),
                "it is in force",
                SECONDS_MAX,
            )
            (beta.contracts.parent / "mine.py").write_text(BOXES)
            done(beta, "contract", "define", "counts_for_beta", "mine.py")
            until(
                lambda: [d["state"] for d in definitions(alpha)] == ["running"], "it runs",
                SECONDS_MAX,
            )  # fmt: skip
        write(beta, "networks/reads.py", READS)
        write(
            beta,
            "participants/beta.yaml",
            "participant: beta\nruns: [{network: networks/reads.py, fragments: [main]}]\n",
        )
        apply(beta)
        with running(beta, tmp_path / "beta2.log"):
            until(lambda: len(rows(beta, BOUGHT)) > 50, "rows are received", SECONDS_MAX)
            found = rows(beta, BOUGHT)
        starts = sorted({row["window_start"] for row in found})
        sold = [
            row for row in rows(alpha, SOLD)
            if starts[0] <= row["window_start"] <= starts[-1] and row["n"] > 1
        ]  # fmt: skip
        assert [values(row) for row in found] == [values(row) for row in sold]
        (mine,) = definitions(beta)
        done(beta, "contract", "withdraw", mine["name"])
