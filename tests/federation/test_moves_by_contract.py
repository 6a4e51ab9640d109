"""A fragment goes to a partner by a command under a contract, and comes back, while both run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipelines.base.time_text import parse_time_us
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.federation.counting_pair import agree, counting_pair
from tests.federation.test_definitions_of_partners import done, running
from tests.partners.offices import Office
from tests.waiting import until

SECONDS_MAX = 300
CONTRACT = """
contract: load_of_alpha
kind: movement
payer: alpha
provider: beta
currency: EUR
valid: {from: 2024-01-01T00:00:00Z, until: 2096-01-01T00:00:00Z}
settlement: 1d
notice: 1s
price: {low: 1.00, high: 1.30, step: 0.10}
load_max: 2
moves: [main]
reference: [main/connections=0.8, main/counted=2]
availability: {recovery: precise, method: upstream_backup, bound: 5s}
penalty: 5.00
hold_max: 1d
"""
IN_FORCE = "SELECT FROM medusa_api.contract_in_force"
WINDOW_US = 2_000_000


def states(office: Office) -> dict[int, str]:
    found = json.loads(done(office, "move", "--json"))["moves"]
    return {one["number"]: one["state"] for one in found}


def steps_of(office: Office, fragment: str = "counts/main") -> list[str]:
    """What the loop of an office did for a fragment, in order."""
    log = office.settings.directory / "logs" / f"{office.participant}.jsonl"
    lines = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return [
        line["event"]
        for line in lines
        if line.get("fragment") == fragment and line["event"] in ("compute", "adopt")
    ]


def rows(office: Office, stream: str) -> list[dict[str, Any]]:
    text = done(office, "read", stream, "--limit", "1_000_000", "--json")
    found: list[dict[str, Any]] = json.loads(text)["rows"]
    return found


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    until(is_done, what, SECONDS_MAX)


@pytest.mark.long
def test_a_fragment_goes_to_a_partner_and_comes_back_by_command(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        alpha, beta = stack.enter_context(counting_pair(postgres_server, tmp_path))
        agree(alpha, beta, "load_of_alpha", CONTRACT)
        for one in (alpha, beta):
            stack.enter_context(running(one, tmp_path / f"{one.participant}.log"))
        wait_for("it is in force", lambda: all(one.sql(IN_FORCE) for one in (alpha, beta)))
        wait_for("alpha computes", lambda: len(steps_of(alpha)) > 2)
        refused = alpha.run("move", "main", "--to", "alpha")
        assert refused.returncode == 2
        assert "no movement contract lets alpha hand counts/main over to alpha" in refused.stderr
        done(alpha, "move", "main", "--to", "beta")
        wait_for("it is released", lambda: states(alpha).get(1) == "released")
        assert "move 1 of counts/main to beta: released" in " ".join(
            done(alpha, "status", "--participant", "alpha").split()
        )
        wait_for("its rows are adopted", lambda: steps_of(alpha)[-3:] == ["adopt"] * 3)
        unknown = beta.run("move", "other", "--back")
        assert unknown.returncode == 2
        assert "beta has no moved fragment 'other': there is counts/main" in unknown.stderr
        again = alpha.run("move", "main", "--to", "beta")
        assert again.returncode == 2
        assert "end that move first" in again.stderr
        assert "counts/main goes back to alpha" in done(beta, "move", "main", "--back")
        for one in (alpha, beta):
            wait_for("it has ended", lambda one=one: states(one)[1] == "ended")  # type: ignore[misc]
        wait_for("alpha computes again", lambda: steps_of(alpha)[-2:] == ["compute"] * 2)
        wait_for(
            "beta computes nothing",
            lambda: not beta.sql("SELECT FROM medusa.fragment AS f WHERE f.stopped_at IS NULL"
                                 " AND f.id LIKE 'moved/%'"),
        )  # fmt: skip
        counted = {
            (parse_time_us("", row["window_start"]), row["orig_h"]): row["n"]
            for row in rows(alpha, "counted")
        }
        last_us = max(start_us for start_us, _ in counted)
        expected = Counter(
            (int(row["ts_us"]) // WINDOW_US * WINDOW_US, row["orig_h"])
            for row in rows(alpha, "connections")
        )
        assert counted == {key: n for key, n in expected.items() if key[0] <= last_us}
        assert not alpha.sql(
            "SELECT FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)"
            " WHERE p.stream = 'counted' AND s.stability <> 'stable'"
        )
