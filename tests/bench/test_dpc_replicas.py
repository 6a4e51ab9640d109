"""The replicas of `make dpc`: what is measured, promised and told, without a federation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.dpc.contracts import NETWORK, OUTPUT
from bench.dpc.cutting import cut_off
from bench.dpc.metrics import measure
from bench.dpc.reading import read_choices, read_divergences, read_status
from bench.dpc.replica_contracts import CHOSEN, LINES, write_replicas
from bench.dpc.replica_figures import Switch, read_of, switch_of
from bench.dpc.scenario import REPLICAS, ReplicaSet
from bench.dpc.table import missed_of, replica_lines
from bench.dpc.targets import switch_verdicts
from bench.federation import Federation
from medusa_core.fragments import fragments_of
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import create_home, drop_home
from pipelines.contracts.federation import read_federation
from pipelines.homes.home import RECORD
from pipelines.language.load import load_network
from pipelines.platform.drills.link_faults import FILE, read_faults
from tests.bench.dpc_building import EPISODE, a_history
from tests.bench.dpc_replicas_building import a_choice, a_replica_cell, a_switch, choices_of
from tests.catalog import building as a
from tests.catalog.producing import BETA, GAMMA, Reading


def test_a_switch_is_the_time_from_the_loss_to_the_first_bucket_that_is_read_of_another() -> None:
    found = a_switch(choices_of(lost="left", then="right"))
    assert found.switch_s == pytest.approx(0.1)
    assert found.taken_s == 0, "a bucket is read 400 ms after its end, without a loss, too"
    assert found.again_s is None
    assert found.silence_s < 2
    assert found.whole_s == pytest.approx(3)
    assert (found.chosen_twice, found.divergences) == (0, 0)
    assert switch_of(json.loads(json.dumps(found.document()))) == found


def test_a_replica_is_taken_from_the_time_on_at_which_its_bucket_is_usually_read() -> None:
    before = [c for c in choices_of(lost="left", then="right") if c.producers == ("left",)]
    found = a_switch([*before, a_choice(101, "right", 102_900)])
    assert found.switch_s == pytest.approx(2.6)
    assert found.taken_s == pytest.approx(0.5)


def test_of_whom_is_read_is_told_by_the_last_choices_and_not_by_the_first() -> None:
    choices = choices_of(lost="right", then="left")
    assert read_of(choices, REPLICAS) == "left"
    assert read_of(choices[:20], REPLICAS) == "right"
    assert read_of([], REPLICAS) == "left"


def test_where_all_are_lost_it_is_counted_when_something_is_read_again() -> None:
    found = a_switch(choices_of(lost="left", then=None), REPLICAS)
    assert found.switch_s is None
    assert found.again_s == pytest.approx(0.7)
    assert found.silence_s == pytest.approx(115.7 - 99.4)


def test_a_bucket_with_two_final_rows_that_were_read_is_found() -> None:
    choices = choices_of(lost="left", then="right")
    assert a_switch([*choices, a_choice(110, "left", 117_000)]).chosen_twice == 1


@pytest.mark.parametrize(
    ("switch", "missed"),
    [
        (a_switch(choices_of(lost="left", then=None)), ["switch", "taken"]),
        (a_switch(choices_of(lost="left", then="right"), divergences=2), ["replicas that differ"]),
        (
            a_switch([*choices_of(lost="left", then="right"), a_choice(110, "left", 117_000)]),
            ["read twice"],
        ),
        (a_switch(choices_of(lost="left", then="right")), []),
        (a_switch(choices_of(lost="left", then=None), REPLICAS), []),
    ],
)
def test_promises_of_replicas_are_judged_and_told(switch: Switch, missed: list[str]) -> None:
    cells = {"replicas/one killed": a_replica_cell(switch), "replicas/one cut off": {"failed": "|"}}
    assert [verdict.what for _, verdict in missed_of(cells)] == missed
    rows = [line for line in replica_lines(cells) if line.startswith("| one ")]
    assert len({row.count("|") for row in rows}) == 1
    assert rows[0].endswith("| met |") == (not missed)
    assert rows[1].endswith("FAILED: / |")


def test_tentative_rows_are_a_promise_missed_as_long_as_a_replica_is_there() -> None:
    answered = measure(a_history(), EPISODE)
    one = a_switch(choices_of(lost="left", then="right"))
    both = a_switch(choices_of(lost="left", then=None), REPLICAS)
    assert [v.what for v in switch_verdicts(answered, one) if not v.is_met] == [
        "tentative with a replica"
    ]
    assert all(v.is_met for v in switch_verdicts(answered, both))


def test_the_catalog_tells_of_whom_each_bucket_was_read_and_where_producers_differ(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    database = "medusa_bench_choices"
    (tmp_path / RECORD).write_text(json.dumps({"participants": {a.ALPHA: database}}))
    settings = replace(Settings.from_environment({}), directory=tmp_path)
    federation = Federation(settings, postgres_server)
    urls = create_home(postgres_server.superuser_url(), a.ALPHA, database)
    try:
        catalog = PostgresCatalog(urls.job, a.ALPHA)
        reading = Reading(catalog)
        reading[BETA].commit(0, 2)
        reading[GAMMA].commit(0, 3)
        reading.hear()
        reading.settle()
        reading[GAMMA].commit(3, 5)
        reading.hear()
        reading.settle()
        found = read_choices(federation, a.ALPHA, a.SUMS)
        before = read_divergences(federation, a.ALPHA, a.SUMS)
        copies = [(name, a.SUMS) for name in ("beta", "gamma")]
        current = read_status(federation, copies, a.ALPHA)
        reading[BETA].commit(2, 5, rows={2: 9, 3: 2, 4: 2})
        reading.hear()
        reading.settle()
        after = read_divergences(federation, a.ALPHA, a.SUMS)
        catalog.close()
    finally:
        drop_home(postgres_server.superuser_url(), database)
    read = {(c.from_us // a.WIDTH_US, c.to_us // a.WIDTH_US): c.producers for c in found}
    assert sorted(read) == [(0, 2), (2, 3), (3, 5)]
    assert read[2, 3] == read[3, 5] == ("gamma",)
    assert read[0, 2] in {("beta",), ("gamma",)}
    assert {c.stability for c in found} == {"stable"}
    assert current.final_us == 2 * a.WIDTH_US
    assert (before, after) == (0, 1)


def test_contracts_of_the_replicas_are_contracts_and_one_reads_what_two_compute(
    tmp_path: Path,
) -> None:
    folder = write_replicas(ReplicaSet(), tmp_path / "contracts")
    read_federation(folder, tmp_path)
    fragments = {f.name: f for f in fragments_of(load_network(str(folder / NETWORK)))}
    assert set(fragments) == {"computing", "reading"}
    assert set(fragments["computing"].outputs) == {StreamName(CHOSEN)}
    assert set(fragments["reading"].input_streams) == {StreamName(CHOSEN), StreamName("third")}
    assert set(LINES) == {("left", CHOSEN), ("right", CHOSEN), ("reader", OUTPUT)}


def test_a_replica_that_is_cut_off_is_cut_off_from_its_reader_alone_and_not_for_ever(
    tmp_path: Path,
) -> None:
    from_s, until_s = cut_off(tmp_path, REPLICAS, "reader", 15.0)
    faults = read_faults(tmp_path / FILE)
    assert until_s - from_s == 15.0
    for one in map(Participant, REPLICAS):
        for link in ((one, Participant("reader")), (Participant("reader"), one)):
            assert faults.is_lost(*link, until_s - 1)
            assert not faults.is_lost(*link, until_s + 1)
        assert not faults.is_lost(Participant("north"), one, from_s)
