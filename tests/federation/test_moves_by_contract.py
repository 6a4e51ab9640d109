"""A fragment goes to a partner by a command under a contract, and comes back, while both run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipelines.base import clock
from pipelines.base.time_text import iso, parse_time_us
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
valid: {from: FROM, until: 2096-01-01T00:00:00Z}
settlement: 20s
notice: 1s
price: {low: 1.00, high: 1.30, step: 0.10}
load_max: 2
moves: [main]
reference: [main/connections=80000, main/counted=20000]
availability: {recovery: precise, method: upstream_backup, bound: 5s}
verify: 0.5
penalty: 5.00
hold_max: 1d
"""
IN_FORCE = "SELECT FROM medusa_api.contract_in_force"
UNSETTLED = """SELECT FROM medusa_market.move AS m WHERE m.from_us IS NOT NULL
        AND (m.to_us <= (SELECT max(b.to_ms) * 1000 FROM medusa_market.bill AS b
            JOIN medusa.home AS h ON h.participant = b.made_by)) IS NOT TRUE
    UNION ALL SELECT FROM medusa_api.bills WHERE state = 'billed'"""
CHARGES = """SELECT c.value->>1, (c.value->>3)::bigint, (c.value->>4)::bigint, c.value->>5,
        c.value->>7, c.value->>8
    FROM medusa_market.bill AS b,
        jsonb_array_elements(convert_from(b.document, 'UTF8')::jsonb->'charges') AS c
    WHERE b.made_by = :made_by AND c.value->>0 = 'load' ORDER BY 1, 2"""
WINDOW_US = 2_000_000


def contract(text: str = CONTRACT) -> str:
    """The contract, from a minute ago on."""
    return text.replace("FROM", iso(int(clock.wall_s() - 60) * 1_000_000))


def check_bills(payer: Office, provider: Office) -> None:
    """Both homes state and settle the same load, to the last digit; a penalty may be in dispute."""
    for one in (payer, provider):
        wait_for("all is settled", lambda one=one: not one.sql(UNSETTLED))  # type: ignore[misc]
    billed = provider.sql(CHARGES, made_by=provider.participant)
    assert billed
    for made_by in (payer.participant, provider.participant):
        assert payer.sql(CHARGES, made_by=made_by) == billed
    for one in (payer, provider):
        blocked = one.sql("SELECT blocked FROM medusa_api.bill_disputes WHERE blocked % 5 <> 0")
        assert blocked == []
        assert one.sql("SELECT sum(amount) FROM medusa_api.books") == [(0,)]
        assert one.sql("SELECT 1 FROM medusa_api.samples WHERE outcome = 'differs'") == []


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
        agree(alpha, beta, "load_of_alpha", contract())
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
        check_bills(alpha, beta)
        found = dict(alpha.sql("SELECT outcome, count(*) FROM medusa_api.samples GROUP BY outcome"))
        assert set(found) == {"equal"}, found
