"""Killed at every gap of landing, a feed of several streams lands for all of them, once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from medusa_core.digest import Digest
from medusa_core.grid import floor_us
from medusa_core.names import Participant, StreamName
from pipelines.base.failpoints import POINTS
from pipelines.participant.home_session import open_session
from tests.federation.processes import Installation, installation, kill
from tests.waiting import until

Landed = dict[StreamName, tuple[int, list[tuple[int, Digest]]]]
LANDING = tuple(p for p in POINTS if p.startswith(("land.", "close.")))
REGIONS = ("east", "north", "south")
STREAMS = tuple(StreamName(f"read_{region}") for region in REGIONS)
RECORDS, FILES, WIDTH_US = 900, 3, 20_000_000
NETWORK = """
from medusa_core.network import Network, Output, Source, Union

columns = {{"ts_us": "bigint", "region": "string", "value": "int"}}
names = {names!r}
network = Network(
    name="readings",
    sources=tuple(Source(name=name, columns=columns, time="ts_us") for name in names),
    boxes=(Union(name="all", inputs=names),),
    outputs=(Output(name="readings", input="all"),),
)
"""


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """alpha lands three streams from one folder; beta is to gather them, and is not run."""
    folder = tmp_path_factory.mktemp("feed")
    incoming = folder / "incoming"
    for made in (incoming, folder / "contracts/participants", folder / "contracts/streams"):
        made.mkdir(parents=True)
    chance = Random(5)
    for number in range(FILES):
        rows = [
            f"{number * 60_000_000 + at * 200_000},{chance.choice(REGIONS)},{chance.randrange(99)}"
            for at in range(RECORDS // FILES)
        ]
        text = "\n".join(["ts_us,region,value", *rows])
        (incoming / f"{number}.csv").write_text(f"{text}\n")
    (folder / "contracts/readings.py").write_text(NETWORK.format(names=tuple(STREAMS)))
    runs = "runs:\n  - network: readings.py\n    bucket: 20s\n"
    (folder / "contracts/participants/alpha.yaml").write_text(
        f"participant: alpha\n{runs}    sources: [{', '.join(STREAMS)}]\n"
    )
    (folder / "contracts/participants/beta.yaml").write_text(
        f"participant: beta\n{runs}    fragments: [main]\n"
    )
    for region, stream in zip(REGIONS, STREAMS, strict=True):
        (folder / f"contracts/streams/{stream}.yaml").write_text(
            f"stream: {stream}\nsource: {{kind: directory, path: '{incoming}', disorder: 5s, "
            f"files_per_poll: 1, where: {{region: {region}}}}}\n"
        )
    return folder / "contracts"


def run_feed(installed: Installation) -> None:
    """alpha, until all that lies in the folder has landed and is closed as far as it can be."""
    process = installed.start("alpha")
    try:
        until(
            lambda: has_landed(installed) or process.poll() is not None,
            "alpha lands and closes what is in its folder",
            seconds_max=180,
        )
        assert process.poll() is None, "it watches until it is stopped"
    finally:
        kill(process)


def has_landed(installed: Installation) -> bool:
    with open_session(installed.settings, Participant("alpha")) as session:
        catalog = session.home.catalog
        landed = sum(
            records
            for stream in STREAMS
            for query_id in catalog.landed_queries(stream)
            for records in catalog.landed_batches(stream, query_id).values()
        )
        lines = [s for s in catalog.streams() if s.stream.name in STREAMS]
        return landed >= RECORDS and all(
            line.promised_us is not None
            and line.boundary_us == floor_us(line.promised_us, WIDTH_US)
            for line in lines
        )


def landed_by(installed: Installation) -> Landed:
    """How far each stream reaches, and every bucket's digest, however it was cut into segments."""
    with open_session(installed.settings, Participant("alpha")) as session:
        catalog = session.home.catalog
        assert not catalog.quarantine_count()
        return {
            line.stream.name: (
                line.boundary_us,
                [
                    bucket
                    for segment in catalog.segments(line.stream.name, producer=line.producer)
                    for bucket in sorted(segment.buckets.items())
                ],
            )
            for line in catalog.streams()
            if line.stream.name in STREAMS
        }


@pytest.fixture(scope="module")
def undisturbed(contracts: Path) -> Landed:
    with installation(contracts) as installed:
        run_feed(installed)
        return landed_by(installed)


@pytest.mark.crash
def test_a_feed_that_is_killed_at_every_gap_of_landing_ends_as_if_nothing_had_been(
    contracts: Path, undisturbed: Landed
) -> None:
    with installation(contracts) as installed:
        hit = {point: installed.kill_at("alpha", point) for point in LANDING}
        run_feed(installed)
        found = landed_by(installed)
    assert sum(digest.rows for _, rows in found.values() for _, digest in rows) > RECORDS // 2
    assert hit == dict.fromkeys(LANDING, True)
    assert found == undisturbed
