"""A home that lands a recording in which some records are late, and what it holds in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from medusa_core.grid import parse_duration_us
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.homes.home import open_home
from pipelines.language.load import load_network
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from tests.federation.building import Running, federation_of, rounds_until, seated
from tests.replaying import SECOND_US, Digests, digests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

HERE = Participant("alpha")
CALLS, COUNTS, BUSY = (StreamName(name) for name in ("calls", "counts", "busy"))
BUCKET_S, SIZE_S, DISORDER_S = 10, 20, 15
WIDTH_US = BUCKET_S * SECOND_US
SOURCE = """
from medusa_core.network import Aggregate, Filter, Join, Network, Output, Source

calls = Source(
    name="calls", columns={"at_s": "bigint", "line": "string", "paid": "decimal(10,2)"},
    time="at_s", time_unit="s", disorder="15s", late="revise", late_every="1h",
)
counted = Aggregate(
    name="counted", input="calls", size="20s", advance="10s", group_by=("line",),
    columns={"n": "count(*)", "paid": "sum(paid)", "last": "last(at_s)"},
)
"""
COUNTED = f"""{SOURCE}
network = Network(
    name="late", sources=(calls,), boxes=(counted,),
    outputs=(Output(name="counts", input="counted"),), bucket="10s",
)
"""
JOINED = f"""{SOURCE}
many = Filter(name="many", input="counted", cases={{"yes": "n > 4"}}, fragment="tail")
pairs = Join(
    name="pairs", left="many.yes", right="calls", on=("line",), within=("-5s", "0s"),
    columns={{"line": "left.line", "n": "left.n", "at_s": "right.at_s"}}, fragment="tail",
)
network = Network(
    name="late", sources=(calls,), boxes=(counted, many, pairs),
    outputs=(Output(name="counts", input="counted"), Output(name="busy", input="pairs")),
    bucket="10s",
)
"""
Call = tuple[int, str]


def calls(seed: int, seconds: int) -> list[Call]:
    """Calls as they come: most in order, and some long after their time."""
    chance = Random(seed)
    lines = [(at, chance.choice("ab")) for at in range(0, seconds, 3)]
    lines += [(chance.randrange(1, seconds), chance.choice("ab")) for _ in range(seconds // 10)]
    delays = {n: chance.choice((*[0] * 20, 40, 150)) for n in range(1, len(lines))}
    numbered = sorted(range(len(lines)), key=lambda n: (lines[n][0] + delays.get(n, 0), n))
    return [lines[n] for n in numbered]


def late_of(arrived: Sequence[Call]) -> list[int]:
    """The times of those that are late, by the plain rule."""
    late, newest_s = [], arrived[0][0]
    for at_s, _ in arrived:
        if at_s < newest_s - DISORDER_S:
            late.append(at_s)
        newest_s = max(newest_s, at_s)
    return late


def windows_of(late: Sequence[int]) -> set[int]:
    """Where the buckets begin whose windows hold a late record: a window's row is at its end."""
    return {
        start + SIZE_S - BUCKET_S
        for at_s in late
        for start in range(-SIZE_S, max(late) + SIZE_S, BUCKET_S)
        if start <= at_s < start + SIZE_S
    }


def cents_of(at_s: int) -> int:
    """What a call at this time is paid, in hundredths."""
    return 100 * (at_s % 7) + at_s % 90 + 10


def write_calls(path: Path, rows: Sequence[Call]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{at},{line},{cents_of(at) // 100}.{cents_of(at) % 100:02}" for at, line in rows]
    path.write_text("\n".join(["at_s,line,paid", *lines]) + "\n")
    return path


def write_contracts(folder: Path, network: str, stream: str, file: Path) -> Path:
    """alpha lands the file and computes all of the network."""
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    (folder / "late.py").write_text(network)
    fragments = "main, tail" if "tail" in network else "main"
    (folder / "participants" / "alpha.yaml").write_text(
        f"participant: alpha\nruns:\n  - network: late.py\n    sources: [{stream}]\n"
        f"    fragments: [{fragments}]\n"
    )
    (folder / "streams" / f"{stream}.yaml").write_text(
        f"stream: {stream}\nsource:\n  kind: replay\n  paths: ['{file}']\n  speed: 1000000000\n"
    )
    return folder


@contextmanager
def applied(
    server: EmbeddedServer, folder: Path, arrived: Sequence[Call], network: str
) -> Iterator[Settings]:
    """A home that is to land calls as they arrive."""
    file = write_calls(folder / "calls.csv", arrived)
    contracts = write_contracts(folder / "contracts", network, CALLS, file)
    with federation_of(server, folder / "homes") as settings:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield settings


def run_to_the_end(settings: Settings, spark: SparkSession) -> None:
    """In this process, until nothing is owed; nothing may go wrong."""
    with seated(settings, HERE, lambda: spark) as running:
        rounds_until([running], lambda: is_done(running))
        assert running.heard.errors == []
        assert running.heard.alarms == []


def is_done(running: Running) -> bool:
    return has_ended(running.home_session) and running.loop.has_admitted_all()


@dataclass(frozen=True)
class Ending:
    """What a home holds: outputs, and buckets (in seconds) that corrections computed, by stream;
    the revisions of the source; what became of its records in quarantine."""

    digests: Digests
    corrected: dict[str, list[int]]
    admissions: list[tuple[str, str, int]]
    results: list[str]
    waiting: int


def ending_of(settings: Settings, network: Path, stream: StreamName = CALLS) -> Ending:
    loaded = load_network(network)
    bucket_us = parse_duration_us(loaded.bucket)
    with open_home(settings, HERE) as home:
        return Ending(
            digests=digests(home, loaded),
            corrected={
                output.name: [
                    at // SECOND_US
                    for done in home.catalog.recalls(StreamName(output.name))
                    for part in done.ranges
                    for at in range(part.from_us, part.to_us, bucket_us)
                ]
                for output in loaded.outputs
            },
            admissions=[
                (
                    done.who,
                    done.because,
                    sum(part.to_us - part.from_us for part in done.changed) // bucket_us,
                )
                for done in home.catalog.recalls(stream)
            ],
            results=[entry.result for entry in home.catalog.quarantine_entries(stream)],
            waiting=sum(b.records for b in home.catalog.late_buckets([stream]).get(stream, ())),
        )
