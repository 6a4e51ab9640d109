"""Netmon3 as four owners run it: alpha, beta and gamma land connections, delta computes.

Delta may hand its fragment over to alpha, which reads the streams of beta and gamma at these, under
grants of its own. Every input is generated while they run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path

from pipelines.base.time_text import parse_time_us
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.federation.counting_pair import agree, join_each_other
from tests.federation.moving_offices import Participants, running_offices
from tests.federation.test_moves_by_contract import CONTRACT, WINDOW_US, contract, rows
from tests.federation.test_partner_streams import apply, write
from tests.partners.offices import office

LANDED = {"alpha": "connections_a", "beta": "connections_b", "gamma": "connections_c"}
COLUMNS = '{"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}'
LANDS = """
from medusa_core.network import Network, Source

network = Network(
    name="lands_{stream}",
    sources=(Source(name="{stream}", columns={columns}, time="ts_us"),),
    boxes=(),
    outputs=(),
    bucket="1s",
)
"""
MONITORING = f"""
from medusa_core.network import Aggregate, Filter, Network, Output, Source, Union

PARTS = {{"connections_a": "alpha", "connections_b": "beta", "connections_c": "gamma"}}
network = Network(
    name="monitoring",
    sources=tuple(
        Source(name=name, stream=f"{{partner}}/{{name}}", columns={COLUMNS})
        for name, partner in PARTS.items()
    ),
    boxes=(
        Union(name="connections", inputs=tuple(PARTS)),
        Aggregate(name="per_source", input="connections", size="2s", group_by=("orig_h",),
                  columns={{"n": "count(*)", "ports": "count(distinct resp_p)"}}),
        Filter(name="often", input="per_source", cases={{"yes": "n > 20"}}),
    ),
    outputs=(Output(name="counted", input="per_source"), Output(name="busy", input="often")),
    bucket="2s",
)
"""
LIVE = """
stream: {stream}
source: {{kind: generate, seed: {seed}, rate_per_s: 40, sources: 8}}
readers: [{readers}]
"""
BUSY = 20
LOAD_OF_DELTA = (
    CONTRACT.replace("load_of_alpha", "load_of_delta")
    .replace("payer: alpha", "payer: delta")
    .replace("provider: beta", "provider: alpha")
    .replace("main/connections=", "main/connections_b=")
    .replace("moves: [main]", "moves: [main]\nreads: [beta/connections_b, gamma/connections_c]")
)


@contextmanager
def netmon3(server: EmbeddedServer, folder: Path, terms: str) -> Iterator[Participants]:
    """All four run, and delta computes."""
    with ExitStack() as stack:
        offices = {
            name: stack.enter_context(office(server, folder / name, name))
            for name in (*LANDED, "delta")
        }
        for one in offices.values():
            apply(one)
        for one, other in combinations(offices.values(), 2):
            join_each_other(one, other)
        for seed, (name, stream) in enumerate(LANDED.items()):
            one = offices[name]
            source = f"  - {{network: networks/lands.py, sources: [{stream}]}}\n"
            write(one, f"participants/{name}.yaml", f"participant: {name}\nruns:\n{source}")
            write(one, "networks/lands.py", LANDS.format(stream=stream, columns=COLUMNS))
            readers = "delta" if name == "alpha" else "alpha, delta"
            live = LIVE.format(stream=stream, seed=seed, readers=readers)
            write(one, f"streams/{stream}.yaml", live)
            apply(one)
        delta = offices["delta"]
        runs = "participant: delta\nruns:\n  - {network: networks/monitoring.py, fragments: [main]}"
        write(delta, "participants/delta.yaml", runs)
        write(delta, "networks/monitoring.py", MONITORING)
        apply(delta)
        agree(delta, offices["alpha"], "load_of_delta", contract(terms))
        four = Participants(
            payer=delta,
            provider=offices["alpha"],
            folder=folder / "logs",
            origins=(offices["beta"], offices["gamma"]),
            fragment="monitoring/main",
        )
        yield stack.enter_context(running_offices(four))


def check_netmon3(four: Participants) -> None:
    """All that is final is what has landed in three homes, once; one owner for each bucket."""
    offices = {one.participant: one for one in four.offices}
    counted = rows(four.payer, "counted")
    found = {
        (parse_time_us("", row["window_start"]), row["orig_h"]): (row["n"], row["ports"])
        for row in counted
    }
    assert len(found) == len(counted), "no row is doubled"
    last_us = max(start_us for start_us, _ in found)
    ports: dict[tuple[int, str], list[int]] = defaultdict(list)
    for name, stream in LANDED.items():
        for row in rows(offices[name], stream):  # type: ignore[index]
            start_us = int(row["ts_us"]) // WINDOW_US * WINDOW_US
            ports[start_us, row["orig_h"]].append(row["resp_p"])
    first_us = min(start_us for start_us, _ in ports)
    expected = {key: (len(its), len(set(its))) for key, its in ports.items() if key[0] <= last_us}
    assert min(start_us for start_us, _ in found) == first_us
    assert found == expected
    busy = rows(four.payer, "busy")
    of_busy = {(parse_time_us("", row["window_start"]), row["orig_h"]): row["n"] for row in busy}
    assert len(of_busy) == len(busy)
    last_busy_us = max(last_us, *(start_us for start_us, _ in of_busy), 0)
    assert {k: v for k, v in of_busy.items() if k[0] <= last_us} == {
        key: n for key, (n, _) in expected.items() if n > BUSY
    }, last_busy_us
    assert not four.payer.sql(
        "SELECT FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)"
        " WHERE p.participant = 'delta' AND s.end_version IS NULL AND s.stability <> 'stable'"
    )
    log = four.payer.sql("SELECT epoch FROM medusa.fragment_owner ORDER BY epoch")
    assert [epoch for (epoch,) in log] == list(range(1, len(log) + 1))


def tentative(four: Participants) -> int:
    """The rows' segments that were ever tentative in the payer's lines."""
    return int(four.payer.sql(
        "SELECT count(*) FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)"
        " WHERE p.participant = 'delta' AND s.stability = 'tentative'"
    )[0][0])  # fmt: skip
