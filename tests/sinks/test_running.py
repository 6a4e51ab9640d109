"""A participant that runs delivers beside its steps, and says how far its sinks are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, StreamName
from medusa_core.sinks import holder_of
from pipelines.base.failpoints import visited_by
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.participant.home_session import open_session
from pipelines.sinks.delivery_workers import Deliveries
from pipelines.sources.generated_files import write_generated
from pipelines.watching.metrics import Metrics
from tests.federation.building import Heard, Running, federation_of, no_spark, seated
from tests.sinks.building import (
    COPIES,
    Database,
    SinkHome,
    a_row,
    locked_by_another,
    names,
    parquet_rows,
)
from tests.sweeps import examples
from tests.waiting import until

SEEN = StreamName("seen")
RECORDS = examples(900, 3_000)
NETWORK = """
from medusa_core.network import Filter, Network, Output, Source

seen = Source(name="seen", columns={"ts_us": "bigint", "orig_h": "string"}, time="ts_us")
some = Filter(name="some", input="seen", cases={"yes": "orig_h > '198.18.9'"})
network = Network(
    name="watched", sources=(seen,), boxes=(some,), outputs=(Output(name="few", input="some"),)
)
"""


@dataclass(frozen=True)
class Lands:
    """An installation in which alpha lands a recording; what it computes is left to others."""

    settings: Settings
    contracts: Path
    lake: Path

    def apply(self, sinks: str) -> None:
        """Declare the sinks of `seen`."""
        contract = self.contracts / "streams" / "seen.yaml"
        text = contract.read_text().partition("sinks:")[0]
        contract.write_text(f"{text}sinks: {sinks}\n")
        apply_contracts(self.settings, ApplyRequest(contracts=self.contracts))

    def run(self, running: Running, done: Any = None) -> None:
        """Run alpha's loop to its end, or until something holds."""

        def recover(error: Exception) -> None:
            raise error

        running.loop.run(
            is_done=done
            or (lambda: has_ended(running.home_session) and running.loop.has_delivered_all()),
            wait=lambda limit_ms: None,
            recover=recover,
            pause=lambda ms: None,
        )


@pytest.fixture
def lands(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Lands]:
    (file,) = write_generated(tmp_path / "input", seed=3, records=RECORDS)
    contracts = tmp_path / "contracts"
    for kind in ("participants", "streams"):
        (contracts / kind).mkdir(parents=True)
    (contracts / "watched.py").write_text(NETWORK)
    for name, what in (("alpha", "sources: [seen]"), ("beta", "fragments: [main]")):
        (contracts / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: watched.py\n    bucket: 10s\n    {what}\n"
        )
    (contracts / "streams" / "seen.yaml").write_text(
        "stream: seen\nsource:\n  kind: replay\n"
        f"  paths: ['{file}']\n  speed: 1000000000\n  disorder: 600s\n"
    )
    with federation_of(postgres_server, tmp_path / "homes") as settings:
        yield Lands(settings, contracts, tmp_path / "lake")


@pytest.mark.sweep
def test_a_running_participant_delivers_to_the_end_of_the_stream(
    lands: Lands, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_SINK_TARGET", database.url)
    lands.apply(
        f"[{{kind: parquet, path: '{lands.lake}', rows_max: {RECORDS // 6}}}, "
        "{kind: postgres, url: '${MEDUSA_SINK_TARGET}', table: seen}]"
    )
    with seated(lands.settings, "alpha", no_spark) as running:
        lands.run(running)
        (line,) = running.home_session.home.catalog.lines()
        sinks = running.home_session.home.catalog.sinks()
        assert [sink.through_us for sink in sinks] == [line.end_us] * 2
        heard = running.heard
    rows = sum(1 for path in lands.lake.glob("*.parquet") for _ in [path])
    assert rows > examples(2, 3), "runs are cut"
    delivered = parquet_rows_of(lands.lake)
    assert len(delivered) == RECORDS
    assert database.run("SELECT count(*), count(DISTINCT (ts_us, orig_h)) FROM seen") == [
        (RECORDS, len({(r["ts_us"], r["orig_h"]) for r in delivered}))
    ]
    runs = [result.run for result in heard.deliveries if result.run is not None]
    assert sum(run.rows for run in runs) == 2 * RECORDS
    assert not heard.errors


def parquet_rows_of(folder: Path) -> list[Mapping[str, Any]]:
    import pyarrow.parquet as pq

    return [
        row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


@pytest.mark.long
def test_a_target_that_is_away_holds_up_neither_steps_nor_other_sinks(
    lands: Lands, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_SINK_TARGET", "postgresql://who:s3cret-word@127.0.0.1:9/none")
    lands.apply(
        f"[{{kind: parquet, path: '{lands.lake}'}}, "
        "{kind: postgres, url: '${MEDUSA_SINK_TARGET}', table: seen}]"
    )
    with seated(lands.settings, "alpha", no_spark) as running:
        catalog = running.home_session.home.catalog

        def is_done() -> bool:
            lake, table_sink = catalog.sinks()
            (line,) = catalog.lines()
            is_delivered = lake.through_us is not None and lake.through_us == line.end_us
            return (
                has_ended(running.home_session) and is_delivered and table_sink.problem is not None
            )

        lands.run(running, is_done)
        assert not running.loop.has_delivered_all()
        assert any(isinstance(e, Unavailable) for e in running.heard.errors)
        (table_sink,) = (s for s in catalog.sinks() if s.name == "postgres")
        assert "s3cret-word" not in repr(table_sink)
        (hold,) = (h for h in catalog.holds(SEEN) if h.holder == holder_of("postgres"))
        assert hold.from_us == table_sink.from_us, "what it has yet to deliver is kept"
        monkeypatch.setenv("MEDUSA_SINK_TARGET", database.url)
        lands.run(running)
    assert database.run("SELECT count(*) FROM seen") == [(RECORDS,)]


@pytest.mark.long
def test_a_sink_that_cannot_go_on_is_an_error_where_all_is_to_be_delivered(lands: Lands) -> None:
    lands.lake.mkdir()
    (lands.lake / "mine.txt").write_text("mine")
    lands.apply(f"[{{kind: parquet, path: '{lands.lake}'}}]")
    with seated(lands.settings, "alpha", no_spark) as running, pytest.raises(Refused, match="mine"):
        lands.run(running)


@pytest.mark.long
def test_sinks_are_added_and_withdrawn_while_a_participant_runs(lands: Lands) -> None:
    lands.apply("[]")
    with seated(lands.settings, "alpha", no_spark) as running:
        lands.run(running)
        assert not lands.lake.exists()
        lands.apply(f"[{{kind: parquet, path: '{lands.lake}'}}]")
        lands.run(running)
        assert len(parquet_rows_of(lands.lake)) == RECORDS
        lands.apply("[]")
        lands.run(running)
        holders = [hold.holder for hold in running.home_session.home.catalog.holds(SEEN)]
        assert holders == ["beta"]
    with open_session(lands.settings, Participant("alpha")) as session:
        assert session.home.catalog.sinks() == ()


# ------------------------------------------------------------ one home by hand


@pytest.fixture
def deliveries(home: SinkHome) -> Iterator[tuple[Deliveries, Heard]]:
    heard = Heard()
    found = Deliveries(
        catalog=home.home.catalog,
        root=home.home.storage,
        directory=home.settings.directory,
        observer=heard,
        environment=home.environment,
    )
    yield found, heard
    found.close()


def look_until(deliveries: Deliveries, condition: Any, what: str) -> None:
    def looked() -> object:
        deliveries.look()
        return condition()

    until(looked, what, seconds_max=120)


@pytest.mark.long
def test_each_sink_has_its_own_pace(
    home: SinkHome, deliveries: tuple[Deliveries, Heard], database: Database, tmp_path: Path
) -> None:
    home.declare_table(COPIES)
    home.declare(COPIES, kind="parquet", path=str(tmp_path / "lake"))
    home.write(COPIES, 0, 2, [a_row(0, 0), a_row(1, 1)])
    look_until(deliveries[0], lambda: home.sink("desk").rows == 2, "the table is delivered into")
    with locked_by_another(home.target_url, "LOCK TABLE rows"):
        home.write(COPIES, 2, 3, [a_row(2, 2)])
        look_until(deliveries[0], lambda: home.sink("lake").rows == 3, "the folder goes on")
        assert home.sink("desk").rows == 2
    look_until(deliveries[0], lambda: home.sink("desk").rows == 3, "the table goes on")
    assert database.rows() == parquet_rows(tmp_path / "lake")


@pytest.mark.long
def test_an_action_of_a_sink_is_reported_once(
    home: SinkHome, deliveries: tuple[Deliveries, Heard], tmp_path: Path
) -> None:
    found, heard = deliveries
    home.declare(COPIES, kind="parquet", path=str(tmp_path / "lake"), rows_max=1)
    home.write(COPIES, 0, 3, [a_row(i, i) for i in range(3)])
    look_until(found, lambda: len(heard.deliveries) == 3, "three runs are told")
    home.write(COPIES, 3, 4, [a_row(3, 3)])
    look_until(found, lambda: len(heard.deliveries) > 3, "the next one is told")
    assert [result.run.rows for result in heard.deliveries if result.run] == [1] * 4
    assert len(names(tmp_path / "lake")) == 4


@pytest.mark.long
def test_closing_does_not_wait_for_a_database_that_does_not_answer(
    home: SinkHome, deliveries: tuple[Deliveries, Heard], database: Database
) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(0, 0)])
    home.deliver()
    begun: list[str] = []
    with locked_by_another(home.target_url, "LOCK TABLE rows"), visited_by(begun.append):
        home.write(COPIES, 1, 2, [a_row(1, 1)])
        look_until(deliveries[0], lambda: "sink.decided" in begun, "delivering begins")
        deliveries[0].close()
    home.deliver()
    assert database.rows() == home.rows(COPIES)


def test_status_shows_how_far_sinks_are_and_why_not_further(
    home: SinkHome, database: Database, tmp_path: Path
) -> None:
    from pipelines.cli.status import document, render
    from pipelines.operations.folder_status import read_status
    from pipelines.sinks.folder_target import LOCK

    home.declare(COPIES, kind="parquet", path=str(tmp_path / "lake"))
    home.declare_table(COPIES, key=["id"])
    home.write(COPIES, 0, 2, [a_row(0, 0)])
    home.deliver()
    home.write(COPIES, 2, 4, [a_row(1, 2)])
    home.deliver("desk")
    (tmp_path / "lake" / LOCK).unlink()
    (tmp_path / "lake" / "mine.txt").write_text("mine")
    home.problem("lake")
    status = read_status(home.settings, "alpha")
    assert status.error is None
    told = document(status)["homes"][0]
    table_sink, lake = told["sinks"]
    assert (table_sink["behind_ms"], table_sink["rows"], table_sink["problem"]) == (
        0,
        2,
        None,
    )
    assert (lake["behind_ms"], lake["rows"]) == (20_000, 1)
    assert "mine.txt" in lake["problem"]
    assert database.password not in json.dumps(told)
    text = render(status)
    assert "copies/lake" in text
    assert "20.0 s" in text
    assert "caught up" in text
    assert "copies/lake is blocked" in text


@pytest.mark.long
def test_metrics_show_how_far_sinks_are(home: SinkHome, tmp_path: Path) -> None:
    home.declare(COPIES, kind="parquet", path=str(tmp_path / "lake"))
    home.write(COPIES, 0, 2, [a_row(0, 0)])
    metrics = Metrics("alpha", str, home.home.catalog)
    labels = {"participant": "alpha", "stream": "copies", "sink": "lake"}

    def value(name: str) -> float | None:
        return metrics.registry.get_sample_value(f"medusa_sink_{name}", labels)

    assert (value("behind_seconds"), value("rows"), value("stuck")) == (20, 0, 0)
    home.deliver()
    assert (value("behind_seconds"), value("rows")) == (0, 1)
    home.home.catalog.record_sink_problem(home.sink(), "full")
    assert value("stuck") == 1
