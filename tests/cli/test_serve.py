"""`medusa serve` as a process: on loopback, with TLS, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg2
import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base.files import is_locked
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.homes.exchange_addresses import address_path, read_address
from pipelines.homes.home import exchange_login, known_homes
from pipelines.homes.signing_keys import make_key
from tests.exchange.published_home import KeyIdentity
from tests.home_pool import home_pool
from tests.sweeps import long_but
from tests.waiting import until

ALPHA, BETA = Participant("alpha"), Participant("beta")


@pytest.fixture
def settings(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Settings]:
    """The home of alpha, which has learnt beta's key."""
    with home_pool(postgres_server, tmp_path / "homes", ALPHA) as settings:
        database = known_homes(settings.directory)[ALPHA]
        url = postgres_server.superuser_url(database).replace("+psycopg2", "")
        with closing(psycopg2.connect(url)) as login, login, login.cursor() as cursor:
            key = KeyIdentity(BETA).public_key().hex()
            cursor.execute("SELECT medusa_api.learn_key('beta', %s)", (key,))
        yield settings


@contextmanager
def serving(settings: Settings, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the line by which it says that it serves."""
    command = [sys.executable, "-m", "pipelines.cli.main", "serve", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=settings.environment_of_child()
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def answering(settings: Settings) -> str:
    """The participant whose home answers beta."""

    def address(partner: Participant) -> PartnerAddress:
        found = read_address(settings.directory, partner)
        key = make_key(settings.directory, partner).public_key
        return PartnerAddress(url=found.url, public_key=key, pin=found.pin)

    exchange = HttpsExchange(BETA, address, KeyIdentity(BETA), answer_s=60)
    with closing(exchange):
        return exchange.health(ALPHA).participant


def is_answering(settings: Settings) -> bool:
    with suppress(Unavailable):
        return answering(settings) == ALPHA
    return False


def test_one_process_serves_a_home_and_another_one_that_waits_does_so_until_it_is_stopped(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings.environment_of_child({}).items():
        monkeypatch.setenv(name, value)
    with serving(settings) as (first, line):
        url = read_address(settings.directory, ALPHA).url
        assert line == f"alpha serves its exchange at {url}\n"
        assert url.startswith("http://127.0.0.1:")
        assert answering(settings) == ALPHA
        assert main(["serve"]) == 3
        assert "another process serves the exchange of alpha" in capsys.readouterr().err
        ready = serving(settings, "--standby")
        first_ends = threading.Timer(1, first.kill)
        first_ends.start()
        with ready as (second, line):
            assert "alpha serves its exchange at" in line
            assert answering(settings) == ALPHA
            second.send_signal(signal.SIGTERM)
            assert second.wait(120) in (130, 143)
        first_ends.join()
    with pytest.raises(Unavailable, match="no address here"):
        answering(settings)


def frozen(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it is frozen")


@pytest.mark.long
def test_a_standby_serves_beside_a_frozen_server_and_takes_its_place_when_that_ends(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.environment_of_child({}).items():
        monkeypatch.setenv(name, value)
    with serving(settings) as (first, _):
        frozen(first)
        with serving(settings, "--standby") as (_, line):
            assert "alpha serves its exchange at" in line
            assert answering(settings) == ALPHA
            assert main(["serve"]) == 3, "the frozen one has the lock"
            first.kill()
            first.wait()
            lock = address_path(settings.directory, ALPHA).with_suffix(".lock")
            until(lambda: is_locked(lock), "the standby has the lock")
            address_path(settings.directory, ALPHA).unlink()
            until(lambda: is_answering(settings), "whoever has the lock writes its address")


@pytest.mark.long
def test_a_server_that_goes_on_is_found_again_when_its_standby_ends(settings: Settings) -> None:
    with serving(settings) as (first, _):
        before = read_address(settings.directory, ALPHA)
        frozen(first)
        with serving(settings, "--standby") as (second, _):
            assert read_address(settings.directory, ALPHA) != before
            first.send_signal(signal.SIGCONT)
            second.send_signal(signal.SIGTERM)
            second.wait(120)
        until(lambda: is_answering(settings), "alpha is found")
        assert read_address(settings.directory, ALPHA) == before


@pytest.mark.long
def test_elsewhere_it_is_served_with_tls_and_a_key_of_its_own(settings: Settings) -> None:
    pins = []
    for _ in range(2):
        with serving(settings, "--host", "0.0.0.0") as (_, line):
            assert "https://127.0.0.1:" in line
            pins.append(line.split()[-1])
            assert read_address(settings.directory, ALPHA).pin == pins[-1]
            assert answering(settings) == ALPHA
    assert pins[0] == pins[1], "partners have pinned it"


def is_listening(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


@pytest.mark.long
def test_with_a_name_partners_on_other_machines_find_it_by_that(settings: Settings) -> None:
    with serving(replace(settings, exchange_name="localhost")) as (_, line):
        assert "https://localhost:" in line
        url = read_address(settings.directory, ALPHA).url
        assert url.startswith("https://localhost:")
        assert answering(settings) == ALPHA
        port = int(url.rpartition(":")[2])
        assert is_listening("127.0.0.1", port)
        assert not is_listening("127.0.0.2", port), "a name of this machine is served there alone"


def test_an_address_that_is_not_written_down_is_unavailable(settings: Settings) -> None:
    path = address_path(settings.directory, ALPHA)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(Unavailable, match="medusa serve --participant alpha"):
        read_address(settings.directory, ALPHA)
    path.unlink()
    for content in (
        None,
        b"",
        b"ftp://x\n",
        b"http://x y\n",
        b"http://" + b"x" * 10_000,
        b"https://x\nabc\n",
        b"https://[\n",
        b"https://-:x\n",
        b"https://x\n",
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(Unavailable, match="medusa serve --participant alpha"):
            read_address(settings.directory, ALPHA)


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    long_but(
        2,
        [
            (["--participant", "gamma"], 2, "there is no home of gamma"),
            (["--host", "192.0.2.1"], 4, "cannot be served at 192.0.2.1"),
            (["--host", "example.invalid"], 4, "cannot be served at example.invalid"),
            (["--key", "/nowhere.pem"], 2, "without its certificate"),
            (["--certificate", "/nowhere.pem"], 2, "certificate /nowhere.pem cannot be used"),
        ],
    ),
)
def test_what_cannot_be_served_is_said_in_a_sentence(
    settings: Settings, options: list[str], code: int, sentence: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in settings.environment_of_child({}).items():
        monkeypatch.setenv(name, value)
    assert main(["serve", *options]) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err


def test_the_login_is_the_servers_alone(settings: Settings) -> None:
    with exchange_login(settings, ALPHA) as (url, _):
        assert "_exchange:" in url
