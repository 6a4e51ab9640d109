"""`medusa apply` of replicas over real homes: what is printed, what stands, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from medusa_core.names import Participant, StreamName
from medusa_core.segments import IMPORT, Producer
from pipelines.base.settings import Settings
from pipelines.catalog.interface import Catalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.contracts.home_snapshot import HomeSnapshot, read_home_snapshot
from pipelines.homes.home import open_home, open_homes
from tests.contracts.test_apply import Apply, apply, homes_made, settings
from tests.contracts.writing import REPLICATED

__all__ = ["apply", "settings"]

A, B, C, D = (Participant(name) for name in ("alpha", "beta", "gamma", "delta"))
LARGE, TICKS = StreamName("large"), StreamName("ticks")
ONE = {**REPLICATED, "participants/beta.yaml": "participant: beta\n"}
TWO = {**REPLICATED, "streams/large.yaml": "stream: large\nreplicas: 2\nverify: 2\n"}


@pytest.fixture
def made(postgres_server: EmbeddedServer, settings: Settings) -> Iterator[None]:
    """The homes of all four."""
    with homes_made(postgres_server, settings, A, B, C, D):
        yield


def status(settings: Settings, name: Participant) -> HomeSnapshot:
    with open_homes(settings, alone=False) as homes:
        url = homes.url(name)
        assert url is not None
        return read_home_snapshot(url, name)


def log(settings: Settings, name: Participant, fragment: str) -> list[tuple[int, str]]:
    return [(line.epoch, str(line.producer)) for line in status(settings, name).log[fragment]]


def holders(catalog: Catalog, stream: StreamName) -> set[str]:
    return {hold.holder for hold in catalog.holds(stream)}


@pytest.mark.usefixtures("made")
@pytest.mark.long
def test_replicas_come_into_all_homes_and_the_same_again_is_nothing(
    apply: Apply, settings: Settings
) -> None:
    first = apply(files=TWO)
    assert first.code == 0, first.err
    assert "by beta and gamma (replicas 0 and 1), epoch 2" in first.out
    assert "chosen among beta and gamma, epoch 1" in first.out
    assert "2 of 2 producers must agree" in first.out
    assert set(apply(files=TWO).marks) == {"="}
    with open_home(settings, D) as home:
        producers = {s.producer for s in home.catalog.lines() if s.stream.name == LARGE}
        assert producers == {Producer(B, 0), Producer(C, 1), Producer(D, IMPORT)}
        assert home.catalog.verifies() == {LARGE: 2}
    for name in (B, C):
        assert log(settings, name, "mine/first") == [(1, "beta/0"), (2, "gamma/1")]
        with open_home(settings, name) as home:
            assert not home.catalog.verifies()
            assert holders(home.catalog, LARGE) == {"delta"}
    with open_home(settings, A) as home:
        assert holders(home.catalog, TICKS) == {"beta", "gamma"}


@pytest.mark.long
@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    "alone",
    [False, pytest.param(True, marks=pytest.mark.long)],
    ids=["all at once", "home by home"],
)
def test_a_replica_joins_a_deployed_network(alone: bool, apply: Apply, settings: Settings) -> None:
    assert apply(files=ONE).code == 0
    assert log(settings, D, "import/large") == [(1, "delta/0")]
    if alone:
        for name in ("beta", "alpha", "delta", "gamma"):
            assert apply("--participant", name, files=TWO).code == 0
    else:
        ran = apply(files=TWO)
        assert ran.code == 0, ran.err
        assert "beta joins gamma as replica 1, epoch 2" in ran.out
    assert set(apply(files=TWO).marks) == {"="}
    for name in (B, C, D):
        assert log(settings, name, "mine/first") == [(1, "gamma/0"), (2, "beta/1")]
    assert log(settings, D, "import/large") == [(1, "delta/0"), (2, "delta/import")]
    with open_home(settings, D) as home:
        producers = {s.producer for s in home.catalog.lines() if s.stream.name == LARGE}
        assert producers == {Producer(C, 0), Producer(B, 1), Producer(D, IMPORT)}
    with open_home(settings, A) as home:
        assert holders(home.catalog, TICKS) == {"beta", "gamma"}
    gone = apply(files=ONE)
    assert gone.code == 2
    assert "cannot be changed in place" in gone.err
    assert set(apply(files=TWO).marks) == {"="}


def test_explaining_replicas_says_it_all_and_makes_nothing(
    apply: Apply, settings: Settings
) -> None:
    bound = {**REPLICATED, "streams/result.yaml": "stream: result\nbound: 10s\n"}
    ran = apply("--explain", files=bound)
    assert ran.code == 0
    assert "stream result is promised within 10 s, and delta, which alone computes it" in ran.out
    document = json.loads(apply("--explain", "--json", files=TWO).out)
    (delta,) = [home for home in document["homes"] if home["participant"] == "delta"]
    shown = {(c["what"], c["name"]): c["detail"] for c in delta["changes"]}
    assert shown["verify", "large"] == "2 of 2 producers must agree"
    assert shown["fragment", "import/large"] == "chosen among beta and gamma, epoch 1"
    assert not settings.directory.exists()


@pytest.mark.usefixtures("made")
@pytest.mark.long
def test_how_many_must_agree_can_be_changed_at_any_time(apply: Apply, settings: Settings) -> None:
    assert apply(files=TWO).code == 0
    ran = apply(files=REPLICATED)
    assert ran.marks.count("~") == 1
    assert "2 -> 1 of 2 producers must agree" in ran.out
    assert not status(settings, D).verified
    assert set(apply("--explain", files=REPLICATED).marks) == {"="}


def test_asking_too_much_of_replicas_is_one_sentence_and_exit_2(
    apply: Apply, settings: Settings
) -> None:
    for text, says in (("replicas: 3", "replicas is 3"), ("verify: 0", "verify is 0")):
        ran = apply(files={**TWO, "streams/large.yaml": f"stream: large\n{text}\n"})
        assert ran.code == 2
        assert f"large.yaml, line 2: {says}" in ran.err
        assert len(ran.err.splitlines()) == 1
    assert not settings.directory.exists()
