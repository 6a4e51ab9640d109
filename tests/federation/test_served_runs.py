"""A participant that runs is served to its partners, and hears of them, over the exchange alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import make_url

from medusa_core.errors import MedusaError
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.contents import FileContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Imported, Importer
from pipelines.exchange.nonblocking import NonBlockingExchange
from pipelines.homes.exchange_addresses import address_path, read_address
from pipelines.homes.home import open_home
from pipelines.operations import exchange_process
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.operations.exchange_process import ExchangeProcess
from pipelines.operations.folder_status import read_status
from pipelines.participant.assembly import has_ended
from pipelines.participant.home_notifications import notification_listener
from pipelines.participant.home_session import HomeSession, open_session
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks
from pipelines.watching.link_facts import broken_link
from tests.exchange.served import served_home
from tests.federation.building import no_spark, rounds_until, seated
from tests.federation.test_partner_files import write_contracts
from tests.home_pool import home_pool
from tests.waiting import until

ALPHA, BETA = Participant("alpha"), Participant("beta")
START_S_MAX = 120
WAIT_MS = 60_000


@pytest.fixture
def settings(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Settings]:
    """Homes of alpha, which lands two streams, and of beta, which reads them."""
    with home_pool(postgres_server, tmp_path / "homes", ALPHA, BETA) as settings:
        contracts = write_contracts(tmp_path / "contracts")
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield settings


def answers(beta: HomeSession) -> bool:
    with suppress(MedusaError):
        return beta.exchange.health(ALPHA).participant == ALPHA
    return False


def server_of(process: psutil.Process) -> psutil.Process | None:
    """The exchange server that a process has started, once it is one."""
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            if "serve" in child.cmdline():
                return child
    return None


@contextmanager
def running(
    settings: Settings, *more: str, participant: Participant = ALPHA
) -> Iterator[subprocess.Popen[str]]:
    """`medusa run` in a process group of its own; the group is killed in the end."""
    command = [sys.executable, "-m", "pipelines.cli.main", "run", "--participant", participant]
    started = subprocess.Popen(
        [*command, *more], env=settings.environment_of_child(), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


@pytest.mark.long
def test_a_run_is_served_again_after_a_kill_and_its_server_ends_with_it(
    settings: Settings,
) -> None:
    with running(settings) as started, open_session(settings, BETA) as beta:
        process = psutil.Process(started.pid)
        until(lambda: answers(beta), "alpha is served", START_S_MAX)
        first = server_of(process)
        assert first is not None
        with open_home(settings, ALPHA) as home:
            until(
                lambda: any(one.server is not None for one in home.catalog.links()),
                "the server has reported its link with beta",
                START_S_MAX,
            )
        before = read_address(settings.directory, ALPHA)
        first.kill()
        until(
            lambda: read_address(settings.directory, ALPHA) != before and answers(beta),
            "alpha is served again",
            START_S_MAX,
        )
        log = (settings.directory / "logs" / f"{ALPHA}.jsonl").read_text()
        assert "exchange server of alpha ended with exit code -9: it is started again" in log
        second = server_of(process)
        assert second is not None
        started.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs([second], timeout=60)
        assert alive == []
        assert started.stdout is not None
        assert "serves its exchange" not in started.stdout.read(), "what it prints is its own"


def test_a_server_that_does_not_answer_is_killed_and_started_again() -> None:
    process = ExchangeProcess(["/bin/sleep", "600"], dict(os.environ), ALPHA, lambda: False)
    alarms: list[str | None] = []

    def end(alarm: str | None) -> None:
        alarms.append(alarm)
        process.end()

    process.on_alarm = end
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange_process, "LOOK_S", 0.01)
        process.supervise()
    problem = "did not answer and was killed"
    assert alarms == [f"the exchange server of alpha {problem}: it is started again"]


@pytest.mark.long
def test_a_server_that_cannot_serve_is_reported_with_its_reason(settings: Settings) -> None:
    path = address_path(settings.directory, ALPHA)
    path.mkdir(parents=True)
    log = settings.directory / "logs" / f"{ALPHA}.jsonl"
    with running(settings) as started:
        until(
            lambda: log.exists() and "cannot be written" in log.read_text(),
            "the end of the server is reported",
            START_S_MAX,
        )
        assert started.poll() is None
    assert "exchange server of alpha ended with exit code 4 (address" in log.read_text()


@pytest.mark.long
def test_no_process_of_a_run_gets_a_login_of_an_administrator_or_of_another_home(
    settings: Settings,
) -> None:
    assert "@" in (settings.catalog_url or ""), "the run is given an administrator's login"
    logins = (settings.directory / "keys" / ALPHA / "logins").iterdir()
    secrets = {read.read_text().strip() for read in logins}
    secrets.add(make_url(settings.catalog_url or "").password or "")
    assert len(secrets) > 4
    assert all(secrets)
    of_others = {"_SPARK_AUTH_SECRET": "a secret", "MEDUSA_FAILPOINT": "nowhere", "TOKEN": "a sink"}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in of_others.items():
            patch.setenv(name, value)
        started = stack.enter_context(running(settings, "--standby", participant=BETA))
        process = psutil.Process(started.pid)
        until(lambda: {"serve", "java"} <= set(kinds_of(process)), "its Spark runs", START_S_MAX)
        found = kinds_of(process)
        for kind, child in found.items():
            given = f"{child.environ()} {child.cmdline()}"
            assert not any(secret in given for secret in secrets), kind
        server = found["serve"].environ()
    assert "@" not in server["MEDUSA_CATALOG_URL"], "it has its own login in a file"
    assert not of_others.keys() & server.keys()


def kinds_of(process: psutil.Process) -> dict[str, psutil.Process]:
    """The processes below one, by what they are."""
    found = {}
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            found["serve" if "serve" in child.cmdline() else child.name()] = child
    return found


@pytest.mark.long
def test_an_interrupt_of_the_whole_group_is_no_failure_of_the_server(settings: Settings) -> None:
    with running(settings) as started, open_session(settings, BETA) as beta:
        until(lambda: answers(beta), "alpha is served", START_S_MAX)
        os.killpg(started.pid, signal.SIGINT)
        started.communicate(timeout=60)
    log = settings.directory / "logs" / f"{ALPHA}.jsonl"
    assert not log.exists() or "exchange server" not in log.read_text()


@pytest.mark.long
def test_status_shows_a_link_while_it_works_and_when_it_is_broken(settings: Settings) -> None:
    def link() -> Mapping[str, Any]:
        """What beta's driver has reported of the requests that it makes."""
        (home,) = read_status(settings, BETA).homes
        assert home.status is not None
        found = [one for one in home.status["links"] if one["side"] == "client"]
        return found[0] if found else {"state": None}

    with running(settings, participant=BETA):
        with running(settings):
            until(lambda: link()["state"] == "reachable", "beta reads of alpha", START_S_MAX)
            until(lambda: link()["answer_ms"] is not None, "answers are measured", START_S_MAX)
        until(lambda: link()["state"] == "unreachable", "alpha is away", START_S_MAX)
        found = link()
        assert "partner alpha" in found["error"] or "exchange of alpha" in found["error"]
        assert str(broken_link(found)).startswith("LINK to alpha is unreachable for ")
        with running(settings):
            until(lambda: link()["state"] == "reachable", "alpha is back", START_S_MAX)


@pytest.mark.long
def test_a_standby_serves_beside_a_run_that_is_frozen(settings: Settings) -> None:
    with ExitStack() as stack:
        beta = stack.enter_context(open_session(settings, BETA))
        first = stack.enter_context(running(settings))
        until(lambda: answers(beta), "alpha is served", START_S_MAX)
        before = read_address(settings.directory, ALPHA)
        os.killpg(first.pid, signal.SIGSTOP)
        second = stack.enter_context(running(settings, "--standby"))
        until(
            lambda: read_address(settings.directory, ALPHA) != before and answers(beta),
            "the standby serves alpha",
            START_S_MAX,
        )
        assert answers(beta)
        assert second.poll() is None


@pytest.mark.long
def test_a_run_that_ends_leaves_no_address(settings: Settings) -> None:
    command = [sys.executable, "-m", "pipelines.cli.main", "run", "--participant", ALPHA]
    ended = subprocess.run(
        [*command, "--until-ended"], env=settings.environment_of_child(), check=False,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert not address_path(settings.directory, ALPHA).exists()
    runs, *lines = [line.split("  ", 1) for line in ended.stdout.splitlines()]
    assert runs[1] == "alpha runs"
    assert any("landed" in line for _, line in lines), ended.stdout
    assert any("stable through" in line for _, line in lines), ended.stdout
    seconds = [time for time, _ in (runs, *lines[:-1])]
    assert len(seconds) == len(set(seconds)), "one line a second, and one at the end"


@pytest.mark.long
def test_a_partner_is_heard_when_its_lines_change(
    settings: Settings,
) -> None:
    with ExitStack() as stack:
        beta = stack.enter_context(open_session(settings, BETA))
        stack.enter_context(served_home(settings, ALPHA))
        listener = notification_listener(beta, FaultInjectedLinks(settings.directory, BETA))
        stack.callback(listener.close)
        assert listener.wait(WAIT_MS), "it answers for the first time"
        with seated(settings, ALPHA, no_spark) as alpha:
            rounds_until([alpha], lambda: has_ended(alpha.home_session))
        assert listener.wait(WAIT_MS), "alpha has landed something"
        while listener.wait(1_000):
            pass  # until all that alpha landed was told


@pytest.mark.long
def test_partners_from_which_nothing_is_imported_are_not_watched(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[tuple[Participant, Participant]] = []

    def heard_of(reader: Participant) -> None:
        def watch(exchange: HttpsExchange, partner: Participant, happened: object) -> object:
            watched.append((reader, partner))
            return lambda: None

        monkeypatch.setattr(HttpsExchange, "watch", watch)
        with open_session(settings, reader) as session:
            listener = notification_listener(
                session, FaultInjectedLinks(settings.directory, reader)
            )
            listener.wait(0)
            listener.close()

    heard_of(ALPHA)
    heard_of(BETA)
    assert watched == [(BETA, ALPHA)]


def test_news_and_files_of_a_partner_come_from_its_server_alone(settings: Settings) -> None:
    one = StreamName("one")
    told: list[Imported] = []
    with ExitStack() as stack:
        beta = stack.enter_context(seated(settings, BETA, no_spark))
        home = beta.home_session.home
        importer = Importer(
            home.catalog, FileCopies(home.storage),
            NonBlockingExchange(beta.home_session.exchange, moment_s=60), beta.leases,
            contents=FileContents(home.storage, home.catalog),
        )  # fmt: skip
        with seated(settings, ALPHA, no_spark) as alpha:
            rounds_until([alpha], lambda: has_ended(alpha.home_session))
            segments = alpha.home_session.home.catalog.segments(one)
            theirs = {f.sha256: f.path for s in segments for f in s.files}
            importer.poll(told.append)
        assert {each.problem for each in told} == {None}
        ours = home.catalog.segments(one)[0].files[0]
        assert theirs[ours.sha256] != ours.path, "a copy is named by its hash"
        told.clear()
        importer.poll(told.append)
        assert all("the exchange of alpha has no address here" in (i.problem or "") for i in told)
        assert told
