"""A replay computes what its first files hold while the others land."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from medusa_core.commits import LeaseKey
from medusa_core.errors import Refused
from medusa_core.fragments import landing_fragment
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Filter, Network, Output, Source
from medusa_core.segments import Producer
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import Home, open_home
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.language.check import check_network, fragments_for
from pipelines.participant import replay_landing
from pipelines.participant.replay_landing import ReplayLanding
from pipelines.participant.replay_order import ReplayOrder
from pipelines.spark.deployment import deployment_of, plan_of
from tests.home_pool import home_pool
from tests.replaying import SECOND_US, SOLO, parquet_files

NETWORK = Network(
    name="beside",
    sources=(Source(name="s", columns={"at_us": "bigint"}, time="at_us"),),
    boxes=(Filter(name="all", input="s", cases={"yes": "true"}),),
    outputs=(Output(name="out", input="all"),),
)
STREAM = StreamName("s")
MONKEY = pytest.MonkeyPatch


def files_of(folder: Path, *seconds: Sequence[int]) -> list[Path]:
    """A Parquet file for each sequence of event times."""
    return [
        parquet_files(folder / str(number), pa.table({"at_us": [s * SECOND_US for s in times]}))[0]
        for number, times in enumerate(seconds)
    ]


def promised(home: Home, files: Sequence[Path], monkeypatch: MONKEY) -> list[tuple[int, int]]:
    """Land the files, and return the origin and boundary of each promise, in seconds."""
    producer = Producer(SOLO)
    checked = check_network(NETWORK)
    fragments = fragments_for(checked)
    plan = plan_of(NETWORK, checked, 10 * SECOND_US, home.directory)
    home.catalog.deploy(deployment_of(plan, checked, fragments, producer))
    order = ReplayOrder(
        network=NETWORK, inputs={STREAM: tuple(files)}, width_us=10 * SECOND_US,
        limits=Limits(records_per_step_max=2),
    )  # fmt: skip
    found: list[tuple[int, int]] = []
    promise = home.catalog.promise

    def note(*given: object, origin_us: int, boundary_us: int, end_us: int | None) -> None:
        found.append((origin_us // SECOND_US, min(boundary_us // SECOND_US, 10**9)))
        promise(*given, origin_us=origin_us, boundary_us=boundary_us, end_us=end_us)  # type: ignore[arg-type]

    monkeypatch.setattr(home.catalog, "promise", note)
    with LeaseRenewer(home.catalog, "test") as leases:
        leases.take([(LeaseKey(fragment=landing_fragment(STREAM), producer=producer), home.epoch)])
        with ReplayLanding(order, home, leases, producer, lambda line: None) as landing:
            *_, landed = landing.promises()
    assert landed == sum(home.catalog.landed_batches(STREAM, f"recorded-{n}")[0]
                         for n in range(len(files)))  # fmt: skip
    return found


END = min(FOREVER_US // SECOND_US, 10**9)
CASES = {
    "in order": (([1, 2], [21, 22], [43, 44]), [(0, 20), (0, END)]),
    "with a file that goes back": (([11, 12], [41, 42], [25, 29]), [(10, 25), (10, END)]),
    "the first file last": (([31, 32], [51, 52], [5, 6]), [(0, END)]),
    "few records in the first": (([1], [43, 44], [55]), [(0, 40), (0, END)]),
    "a long way to the next": (([1, 22], [91, 95], [99]), [(0, 20), (0, 90), (0, END)]),
}
"""Never beyond the last bucket that has records: all that follow may be quarantined."""


@pytest.mark.parametrize("case", CASES)
def test_a_source_promises_as_far_as_the_files_that_follow_allow(
    case: str, postgres_server: EmbeddedServer, tmp_path: Path, monkeypatch: MONKEY
) -> None:
    seconds, expected = CASES[case]
    with (
        home_pool(postgres_server, tmp_path / "home", SOLO) as settings,
        open_home(settings, SOLO) as home,
    ):
        assert promised(home, files_of(tmp_path, *seconds), monkeypatch) == expected


def test_a_file_that_has_an_earlier_record_than_its_statistics_say_is_refused(
    postgres_server: EmbeddedServer, tmp_path: Path, monkeypatch: MONKEY
) -> None:
    monkeypatch.setattr(replay_landing, "earliest_time", lambda source, file: 40 * SECOND_US)
    with (
        home_pool(postgres_server, tmp_path / "home", SOLO) as settings,
        open_home(settings, SOLO) as home,
        pytest.raises(Refused, match="earlier than its statistics allow"),
    ):
        promised(home, files_of(tmp_path, [1, 62], [41, 42], [30, 50]), monkeypatch)
