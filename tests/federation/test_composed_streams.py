"""Networks read streams of other networks, in their own home and in others."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.certificates import Suite
from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range, ceil_us
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso, parse_time_us
from pipelines.catalog.records import LineStatus
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.participant.kept_history import KeptHistory, kept_history
from pipelines.participant.replay_order import (
    inputs_of_network,
    streams_of_network,
    with_landed_sources,
)
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from pipelines.storage.csv_export import export_stream
from tests.federation.building import Running, rounds_until, seated
from tests.home_pool import home_pool
from tests.replaying import Replayer, parquet_files
from tests.sweeps import IS_LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

PARTICIPANTS = tuple(map(Participant, ("alpha", "beta", "gamma")))
DELTA = Participant("delta")
START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
RECORDS = 120
EVERYTHING = Range(BEGINNING_US, FOREVER_US)
TIMES = ("event_time", "window_start")

COUNTS = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="counts",
    sources=(Source(name="connections", columns={"ts_us": "bigint", "orig_h": "string"},
                    time="ts_us"),),
    boxes=(Aggregate(name="per_host", input="connections", size="2s", group_by=("orig_h",),
                     columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="per_host"),),
    bucket="1s",
)
"""
COUNTED = '{"window_start": "timestamp", "orig_h": "string", "n": "bigint"}'
OFTEN = f"""
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="often",
    sources=(Source(name="hosts", columns={COUNTED}, stream="alpha/counted"),),
    boxes=(Filter(name="busy", input="hosts", cases={{"yes": "n > 1"}}),),
    outputs=(Output(name="busy_hosts", input="busy"),),
    bucket="1s",
)
"""
SUMS = f"""
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="sums",
    sources=(Source(name="busy", columns={COUNTED}, stream="beta/busy_hosts"),
             Source(name="all", columns={COUNTED}, stream="alpha/counted"),),
    boxes=(Aggregate(name="of_busy", input="busy", size="10s", group_by=("orig_h",),
                     columns={{"n": "sum(n)"}}),
           Aggregate(name="of_all", input="all", size="10s", columns={{"n": "sum(n)"}}),),
    outputs=(Output(name="busy_sums", input="of_busy"), Output(name="all_sums", input="of_all")),
    bucket="10s",
)
"""
AT_HOME = f"""
from medusa_core.network import Aggregate, Filter, Network, Output, Source

network = Network(
    name="at_home",
    sources=(Source(name="mine", columns={COUNTED}, stream="counted"),
             Source(name="raw", columns={{"ts_us": "bigint", "orig_h": "string"}},
                    stream="connections"),),
    boxes=(Filter(name="single", input="mine", cases={{"yes": "n = 1"}}),
           Aggregate(name="minute", input="raw", size="60s", columns={{"n": "count(*)"}}),),
    outputs=(Output(name="singles", input="single"), Output(name="minutes", input="minute")),
    bucket="1s",
)
"""
SLIDES = f"""
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="NAME",
    sources=(Source(name="all", columns={COUNTED}, stream="alpha/counted"),),
    boxes=(Aggregate(name="of_all", input="all", size="20s", advance="5s", group_by=("orig_h",),
                     columns={{"n": "sum(n)"}}),),
    outputs=(Output(name="NAME_sums", input="of_all"),),
    bucket="5s",
)
"""
LATE_S = 51
"""Seconds behind the first record at which a late network starts; its next bucket begins at 55."""
RUNS = {
    "alpha": ("counts, sources: [connections], fragments: [main]", "at_home, fragments: [main]"),
    "beta": ("often, fragments: [main]",),
    "gamma": ("sums, fragments: [main]",),
}


def write_contracts(folder: Path, recorded: Path) -> Path:
    """Alpha counts and reads its own streams, beta filters what alpha counts, gamma sums both."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)
    for name, text in (("counts", COUNTS), ("often", OFTEN), ("sums", SUMS), ("at_home", AT_HOME)):
        (folder / "networks" / f"{name}.py").write_text(text)
    for name, runs in RUNS.items():
        items = "".join(
            f"  - {{network: networks/{run.replace(',', '.py,', 1)}}}\n" for run in runs
        )
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n{items}"
        )
    (folder / "streams" / "connections.yaml").write_text(
        f"stream: connections\nsource:\n  kind: replay\n  paths: ['{recorded}']\n"
        "  speed: 1000000000\n"
    )
    (folder / "streams" / "busy_sums.yaml").write_text("stream: busy_sums\nbound: 60s\n")
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Connections of three hosts over two minutes, some of them close together."""
    times = [START_US + at * SECOND_US + (at % 7) * 100_000 for at in range(RECORDS)]
    hosts = [f"10.0.0.{at * at % 3}" for at in range(RECORDS)]
    table = pa.table({"ts_us": times, "orig_h": hosts})
    (path,) = parquet_files(tmp_path_factory.mktemp("recorded"), table)
    return path


@pytest.fixture(scope="module")
def composed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    recorded: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Settings, Path, dict[str, Running]]]:
    """The three, run until all of their streams have ended; the contracts are applied twice."""
    folder = tmp_path_factory.mktemp("composed")
    contracts = write_contracts(folder / "contracts", recorded)
    with (
        home_pool(postgres_server, folder / "homes", *PARTICIPANTS, DELTA) as settings,
        ExitStack() as stack,
    ):
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        assert apply_contracts(settings, ApplyRequest(contracts=contracts)).is_same
        running = {
            name: stack.enter_context(seated(settings, name, lambda: spark))
            for name in PARTICIPANTS
        }
        run_to_the_end(*running.values())
        yield settings, contracts, {str(name): one for name, one in running.items()}


@pytest.fixture(scope="module")
def three(composed: tuple[Settings, Path, dict[str, Running]]) -> dict[str, Running]:
    """The participants that have run."""
    return composed[2]


def run_to_the_end(*running: Running) -> None:
    """Run participants, each behind those that it reads, until all of their streams have ended.

    One after the other they make few steps; in `make test-long` they tick in turn, and each reads
    what another has computed so far.
    """
    for together in [running] if IS_LONG else [(one,) for one in running]:
        rounds_until(together, partial(have_ended, together))


def have_ended(running: Iterable[Running]) -> bool:
    return all(has_ended(one.home_session) for one in running)


def rows(running: Running, stream: str, folder: Path) -> list[tuple[str, ...]]:
    """The stable rows of a stream as its home exports them, without their times and windows."""
    home, path = running.home_session.home, folder / f"{stream}.csv"
    export_stream(home.catalog, home.storage, StreamName(stream), path)
    lines = path.read_text().splitlines()
    names = lines[0].split(",")
    shown = [at for at, name in enumerate(names) if name not in TIMES]
    return sorted(tuple(line.split(",")[at] for at in shown) for line in lines[1:])


def counted(recorded: Path) -> Counter[tuple[int, str]]:
    """(window's start, host) -> connections, computed without an engine."""
    table = pq.read_table(recorded).to_pydict()
    pairs = zip(table["ts_us"], table["orig_h"], strict=True)
    return Counter((at // (2 * SECOND_US) * 2 * SECOND_US, host) for at, host in pairs)


def summed(counts: Counter[tuple[int, str]], *, by_host: bool) -> Counter[tuple[int, str]]:
    """The counts in windows of 10 s; a count lies at the end of its window."""
    sums: Counter[tuple[int, str]] = Counter()
    for (start_us, host), n in counts.items():
        window_us = (start_us + 2 * SECOND_US - 1) // (10 * SECOND_US) * 10 * SECOND_US
        sums[window_us, host if by_host else ""] += n
    return sums


@pytest.mark.sweep
def test_a_stream_of_another_network_is_read_exactly_in_every_home(
    three: dict[str, Running], recorded: Path, tmp_path: Path
) -> None:
    counts = counted(recorded)
    busy = Counter({key: n for key, n in counts.items() if n > 1})
    assert busy
    assert len(busy) < len(counts)
    singles = rows(three["alpha"], "singles", tmp_path)
    assert singles == sorted((host, "1") for (_, host), n in counts.items() if n == 1)
    hosts = rows(three["beta"], "busy_hosts", tmp_path)
    assert hosts == sorted((host, str(n)) for (_, host), n in busy.items())
    sums = rows(three["gamma"], "busy_sums", tmp_path)
    assert sums == sorted((host, str(n)) for (_, host), n in summed(busy, by_host=True).items())
    all_sums = rows(three["gamma"], "all_sums", tmp_path)
    assert all_sums == sorted((str(n),) for n in summed(counts, by_host=False).values())
    minutes = sum(int(row[0]) for row in rows(three["alpha"], "minutes", tmp_path))
    assert minutes == RECORDS
    for one in three.values():
        assert one.home_session.home.catalog.quarantine_count() == 0


def test_each_home_holds_a_stream_once_however_many_networks_read_it(
    three: dict[str, Running],
) -> None:
    gamma = three["gamma"].home_session.home.catalog
    lines = {(str(line.stream.name), line.producer.participant) for line in gamma.lines()}
    assert lines == {
        ("counted", "alpha"), ("busy_hosts", "beta"),
        ("busy_sums", "gamma"), ("all_sums", "gamma"),
    }  # fmt: skip
    alpha = three["alpha"].home_session.home.catalog
    readers = {(hold.holder, hold.purpose) for hold in alpha.holds(StreamName("counted"))}
    assert {("beta", "import"), ("gamma", "import")} <= readers


@pytest.mark.long
def test_the_rows_of_a_composed_network_certify_by_a_recomputation(
    three: dict[str, Running],
) -> None:
    for name, stream in (("alpha", "singles"), ("beta", "busy_hosts"), ("gamma", "busy_sums")):
        home = three[name].home_session.home
        outcome = run_checks(home, WindowRequest(stream=stream))
        certificates = [found.certificate for found in outcome.found]
        assert [c for c in certificates if not c.passed] == [], stream
        assert any(c.suite == Suite.CONVERGED for c in certificates), certificates


def slid(counts: Counter[tuple[int, str]]) -> Counter[tuple[int, str]]:
    """The counts in windows of 20 s every 5 s; a count lies at the end of its window."""
    sums: Counter[tuple[int, str]] = Counter()
    for (start_us, host), n in counts.items():
        newest_us = (start_us + 2 * SECOND_US - 1) // (5 * SECOND_US) * 5 * SECOND_US
        for back in range(4):
            sums[newest_us - back * 5 * SECOND_US, host] += n
    return sums


@pytest.mark.long
@pytest.mark.sweep
def test_a_late_network_has_the_rows_from_its_start_on_that_it_had_from_the_origin(
    composed: tuple[Settings, Path, dict[str, Running]],
    recorded: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """In `make test` the rows are compared with sums that no engine computes."""
    settings, contracts, _ = composed
    late_us = START_US + LATE_S * SECOND_US
    starts_us = ceil_us(late_us, 5 * SECOND_US)
    starts = {"late": iso(late_us)} | ({"early": "origin"} if IS_LONG else {})
    runs = ""
    for name, start in starts.items():
        (contracts / "networks" / f"{name}.py").write_text(SLIDES.replace("NAME", name))
        runs += f"  - {{network: networks/{name}.py, fragments: [main], from: '{start}'}}\n"
    (contracts / "participants" / "delta.yaml").write_text(f"participant: delta\nruns:\n{runs}")
    request = ApplyRequest(contracts=contracts)
    apply_contracts(settings, request)
    assert apply_contracts(settings, request).is_same
    with seated(settings, "delta", lambda: spark) as delta:
        rounds_until([delta], lambda: has_ended(delta.home_session))
        home = delta.home_session.home
        found: dict[str, list[dict[str, object]]] = {}
        for name in starts:
            stream = StreamName(f"{name}_sums")
            path = tmp_path / f"{name}.csv"
            export_stream(home.catalog, home.storage, stream, path)
            with path.open(newline="") as file:
                found[name] = list(csv.DictReader(file))
            if IS_LONG:  # as another test certifies what is computed from the origin
                outcome = run_checks(home, WindowRequest(stream=stream))
                assert all(one.certificate.passed for one in outcome.found), name
                assert any(one.certificate.suite is Suite.CONVERGED for one in outcome.found)

    def begins_us(row: dict[str, object]) -> int:
        return parse_time_us("window_start", str(row["window_start"]))

    every = [(at_us, host, n) for (at_us, host), n in slid(counted(recorded)).items()]
    tail = [row for row in every if row[0] + 20 * SECOND_US - 1 >= starts_us]
    assert 0 < len(tail) < len(every)
    late = found["late"]
    assert sorted((begins_us(r), str(r["orig_h"]), int(str(r["n"]))) for r in late) == sorted(tail)
    if IS_LONG:
        early = [row for row in found["early"] if begins_us(row) + 20 * SECOND_US - 1 >= starts_us]
        assert late == early
    (line,) = home_lines(delta, "late_sums")
    assert line.origin_us == starts_us


def home_lines(running: Running, stream: str) -> list[LineStatus]:
    lines = running.home_session.home.catalog.lines()
    return [line for line in lines if line.stream.name == stream]


def made(network: str) -> Network:
    values: dict[str, Any] = {}
    exec(network, values)
    found: Network = values["network"]
    return found


def test_a_network_over_kept_history_gives_what_it_would_have_given(
    three: dict[str, Running], replayer: Replayer, tmp_path: Path
) -> None:
    alpha = three["alpha"].home_session.home
    history = kept_history(alpha, "counted", EVERYTHING, None)
    network = with_landed_sources(made(OFTEN), {"hosts"})
    exported = []
    with replayer.home() as home:
        # Pieces of seven rows, and the same again: what has landed lands once.
        for _ in range(2):
            result = replayer.run(
                home, network, {}, width_s=1, histories={"hosts": history}, chunk_records=7,
                export=tmp_path / "out",
            )  # fmt: skip
            exported.append((tmp_path / "out" / "busy_hosts.csv").read_bytes())
        assert result.steps_resumed
        other = kept_history(alpha, "counted", Range(START_US, START_US + 60 * SECOND_US), None)
        with pytest.raises(Refused, match="holds another replay"):
            replayer.run(home, network, {}, width_s=1, histories={"hosts": other}, chunk_records=7)
    beta = three["beta"].home_session.home
    export_stream(beta.catalog, beta.storage, StreamName("busy_hosts"), tmp_path / "beta.csv")
    assert exported == [(tmp_path / "beta.csv").read_bytes()] * 2


@pytest.mark.parametrize("seconds", [(0, 60), (7, 31), (59, 60)])
def test_a_part_of_kept_history_has_the_rows_of_these_times(
    three: dict[str, Running], seconds: tuple[int, int]
) -> None:
    part = Range(*(START_US + at * SECOND_US for at in seconds))
    home = three["alpha"].home_session.home
    whole = kept_history(home, "counted", EVERYTHING, None)

    def times(history: KeptHistory) -> list[int]:
        return sorted(at for table in history.tables(10) for at in table["_stime"].to_pylist())

    found = times(kept_history(home, "counted", part, None))
    assert found == [at for at in times(whole) if part.from_us <= at < part.to_us]


def test_history_that_is_not_kept_or_not_there_yet_is_refused(three: dict[str, Running]) -> None:
    home = three["alpha"].home_session.home
    year_us = 365 * 86_400 * SECOND_US
    for part, sentence in (
        (Range(START_US - year_us, FOREVER_US), "is kept from .* on: give --from that, or later"),
        (Range(BEGINNING_US, START_US + year_us), "is final through .*: give --to that at most"),
    ):
        with pytest.raises(Refused, match=sentence):
            kept_history(home, "counted", part, None)
    with pytest.raises(Refused, match="version 999 of counted is not there yet"):
        kept_history(home, "counted", EVERYTHING, "999")
    with pytest.raises(Refused, match="has no stream 'count': did you mean 'counted'"):
        kept_history(home, "count", EVERYTHING, None)


def test_history_at_a_version_has_the_rows_of_that_version(three: dict[str, Running]) -> None:
    home = three["alpha"].home_session.home
    (line,) = home.catalog.lines(StreamName("counted"))
    rows_at = [
        sum(table.num_rows for table in kept_history(home, "counted", EVERYTHING, str(v)).tables(9))
        for v in range(1, line.version + 1)
    ]
    assert rows_at == sorted(rows_at)
    whole = kept_history(home, "counted", EVERYTHING, None)
    assert rows_at[-1] == sum(table.num_rows for table in whole.tables(9)) > 0


def test_streams_of_sources_are_named_once_and_instead_of_files() -> None:
    network = made(SUMS)
    assert streams_of_network(network, ["busy=a", "all=b"]) == {"busy": "a", "all": "b"}
    for given, sentence in (
        (["a"], "--stream 'a' does not say which source of sums it is for"),
        (["alll=b"], "network sums has no source 'alll': did you mean 'all'"),
        (["all=a", "all=b"], "source all of network sums is given two streams"),
    ):
        with pytest.raises(Refused, match=sentence):
            streams_of_network(network, given)
    with pytest.raises(Refused, match="has a file and a stream: give one"):
        inputs_of_network(network, ["all=x.csv"], ["all"])
    with pytest.raises(Refused, match="source busy of network sums has no input"):
        inputs_of_network(network, [], ["all"])
