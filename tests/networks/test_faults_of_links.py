"""What a network does to a link between two homes: nothing is lost or doubled, nobody waits."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.networks.cable import Conditions
from tests.networks.linked_homes import LinkedHomes, Load, linked_homes
from tests.networks.server_faults import (
    clocks_apart,
    expired_certificate,
    never_ending,
    one_byte_a_second,
    server_instead,
)

CUT = Conditions(is_cut=True)
FORGOTTEN = Conditions(is_forgotten=True)
RECOVERED_S_MAX = 30
"""A partner that is reached again is heard within a request's time limit and a pause."""


@pytest.fixture
def homes(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[LinkedHomes]:
    with linked_homes(postgres_server, tmp_path) as made:
        yield made


@pytest.mark.long
def test_a_partition_loses_nothing_and_ends_without_a_restart(homes: LinkedHomes) -> None:
    homes.import_more()
    homes.network.cable.between("alpha", "beta", CUT)
    assert "partner alpha" in homes.until_problem("answer")
    homes.land(10)
    homes.network.cable.heal()
    homes.finish()


@pytest.mark.long
@pytest.mark.parametrize(("receiver", "sender"), [("alpha", "beta"), ("beta", "alpha")])
def test_a_partition_of_one_way_alone_is_as_one_of_both(
    homes: LinkedHomes, receiver: str, sender: str
) -> None:
    homes.import_more()
    homes.network.cable.toward(receiver, sender, CUT)
    assert "partner alpha" in homes.until_problem("answer")
    homes.land(10)
    homes.network.cable.heal()
    homes.finish()


@pytest.mark.long
def test_connections_that_the_network_forgets_are_replaced(homes: LinkedHomes) -> None:
    """A firewall that has restarted: what was open is lost without a word, new ones are carried."""
    homes.import_more()
    homes.network.cable.between("alpha", "beta", FORGOTTEN)
    began_s = time.monotonic()
    homes.import_more()
    homes.finish()
    assert homes.network.cable.counts()["cut"] > 0
    assert time.monotonic() - began_s < RECOVERED_S_MAX


@pytest.mark.long
def test_a_server_that_starts_again_behind_a_partition_is_found(homes: LinkedHomes) -> None:
    homes.import_more()
    homes.network.cable.between("alpha", "beta", CUT)
    homes.served.close()
    homes.serve()
    homes.until_problem("answer")
    homes.network.cable.heal()
    homes.import_more()
    homes.finish()


@pytest.mark.long
def test_connections_that_are_reset_in_mid_file_are_continued(homes: LinkedHomes) -> None:
    homes.network.cable.toward("beta", "alpha", Conditions(reset_after=25_000))
    homes.finish()
    assert homes.network.cable.counts()["reset"] > 5


@pytest.mark.long
@pytest.mark.parametrize("loss", [0.01, 0.1])
def test_a_link_that_loses_packets_loses_no_rows(homes: LinkedHomes, loss: float) -> None:
    homes.network.cable.between("alpha", "beta", Conditions(loss=loss, delay_ms=5))
    homes.finish()
    assert homes.network.cable.counts()["lost"] > 0


@pytest.mark.long
@pytest.mark.parametrize("delay_ms", [50, 300])
def test_a_long_link_is_read_over(
    postgres_server: EmbeddedServer, tmp_path: Path, delay_ms: int
) -> None:
    with linked_homes(postgres_server, tmp_path, Load(buckets=12)) as homes:
        homes.network.cable.between("alpha", "beta", Conditions(delay_ms=delay_ms))
        homes.finish()
        assert not [one.problem for one in homes.told if one.problem], "slow is no problem"


@pytest.mark.long
def test_a_link_of_1_megabit_a_second_is_read_over(homes: LinkedHomes) -> None:
    homes.network.cable.between("alpha", "beta", Conditions(bits_per_s=1e6, delay_ms=20))
    homes.finish()
    assert not [one.problem for one in homes.told if one.problem], "slow is no problem"


@pytest.mark.long
@pytest.mark.parametrize("minutes", [-5, 5])
def test_clocks_that_are_5_minutes_apart_are_no_fault(homes: LinkedHomes, minutes: int) -> None:
    with clocks_apart(homes, minutes):
        homes.finish()
    assert not [one.problem for one in homes.told if "clock" in (one.problem or "")]


@pytest.mark.long
def test_a_certificate_that_expired_is_refused_until_it_is_renewed(homes: LinkedHomes) -> None:
    homes.import_more()
    with expired_certificate(homes):
        problem = homes.until_problem("certificate")
        assert "certificate has expired" in problem
        homes.land(5)
    homes.finish()


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "words"),
    [(one_byte_a_second, "fewer than 10000 bytes a second"), (never_ending, "more than")],
)
def test_a_server_that_never_ends_an_answer_holds_up_no_loop(
    homes: LinkedHomes, answer: Callable[[socket.socket], None], words: str
) -> None:
    homes.import_more()
    with server_instead(homes, answer):
        homes.until_problem(words)
        homes.land(5)
    homes.finish()
