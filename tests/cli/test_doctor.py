"""`medusa doctor`: looks without changing, fails where something is wrong, and says the mend."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from pipelines.homes.home import make_home
from pipelines.operations import machine_checks
from pipelines.operations.findings import State
from pipelines.operations.home_checks import clock_finding
from pipelines.watching.watcher import Watcher
from tests.catalog import building as a
from tests.cli.watched import BETA, Watched, own_watched_homes, watched_homes

CANARY = "kanarienvogel"
OF_A_MACHINE = ["python", "folder", "disk", "memory", "java", "ports", "postgres", "test data"]
Doctor = Callable[..., tuple[int, dict[str, dict[str, str]], str]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Run `medusa doctor` in an environment: exit code, findings by name, and its text."""

    # What other tests take of this machine's memory at the moment is no finding.
    monkeypatch.setattr("pipelines.spark.java.check_memory", lambda: None)

    def run(environment: dict[str, str]) -> tuple[int, dict[str, dict[str, str]], str]:
        for name in ("MEDUSA_CATALOG_URL", "MEDUSA_METRICS_PORT"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code = main(["doctor", "--json"])
        document = json.loads(capsys.readouterr().out)
        assert document["ok"] == (code == 0)
        assert main(["doctor"]) == code
        printed = capsys.readouterr()
        assert len(printed.out.splitlines()) == len(document["checks"])
        assert CANARY not in json.dumps(document) + printed.out + printed.err
        return code, {check["name"]: check for check in document["checks"]}, printed.out

    return run


@pytest.fixture
def watched(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Watched]:
    with watched_homes(postgres_server, tmp_path / "homes") as homes:
        yield homes


def test_a_machine_without_a_home_is_examined_and_nothing_is_left_behind(
    doctor: Doctor, tmp_path: Path
) -> None:
    code, found, _ = doctor({"MEDUSA_DIR": str(tmp_path / "not made yet")})
    assert (code, list(found)) == (0, OF_A_MACHINE)
    assert {check["state"] for check in found.values()} == {"ok"}
    assert not list(tmp_path.iterdir())


def test_a_failure_is_reported_with_a_remedy_and_without_the_password(doctor: Doctor) -> None:
    url = f"postgresql://who:{CANARY}@127.0.0.1:1/nowhere"
    code, found, text = doctor({"MEDUSA_CATALOG_URL": url, "MEDUSA_DIR": "/proc/medusa"})
    assert code == 1
    assert found["postgres"]["state"] == found["folder"]["state"] == "fail"
    failed = [line for line in text.splitlines() if line.startswith("FAIL")]
    assert any("MEDUSA_CATALOG_URL" in line for line in failed)
    assert any("MEDUSA_DIR" in line for line in failed)


def test_healthy_homes_are_reported_as_such(doctor: Doctor, watched: Watched) -> None:
    code, found, _ = doctor(watched.environment())
    assert code == 0
    for home in ("alpha", "beta"):
        names = (f"migrations of {home}", f"clock of {home}", f"LISTEN in {home}",
                 f"leases of {home}")  # fmt: skip
        assert {found[name]["state"] for name in names} == {"ok"}
    assert "2 held" in found["leases of alpha"]["found"]
    assert "was heard" in found["LISTEN in alpha"]["found"]


def test_a_lease_left_behind_with_work_waiting_is_a_failure(
    doctor: Doctor, watched: Watched
) -> None:
    over = "UPDATE medusa.lease SET expires_at = clock_timestamp() - interval '{}'"
    watched.change(over.format("10 seconds"))
    _, found, _ = doctor(watched.environment())
    assert found["leases of alpha"]["state"] == "ok", "a driver may take it yet"
    watched.change(over.format("5 minutes"))
    code, found, _ = doctor(watched.environment())
    assert (code, found["leases of alpha"]["state"]) == (1, "fail")
    assert a.MAIN in found["leases of alpha"]["found"]
    assert "5 min" in found["leases of alpha"]["found"]
    assert found["leases of alpha"]["to_do"] == "run `medusa run --participant alpha`"


@pytest.mark.long
def test_a_lease_left_behind_without_work_is_nothing(doctor: Doctor, watched: Watched) -> None:
    watched.change(
        "INSERT INTO medusa.lease SELECT a.fragment, 0, 'beta', 0, 'live', 1, 'gone', "
        "clock_timestamp() - interval '1 day' FROM medusa.assignment AS a", BETA,
    )  # fmt: skip
    _, found, _ = doctor(watched.environment())
    assert found["leases of beta"]["state"] == "ok"


@pytest.fixture
def own(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Watched]:
    with own_watched_homes(postgres_server, tmp_path / "homes") as homes:
        yield homes


@pytest.mark.long
def test_the_doctor_changes_nothing_in_a_home(doctor: Doctor, own: Watched) -> None:
    newest = "(SELECT max(name) FROM medusa.schema_migration)"
    own.change(
        f"DELETE FROM medusa.schema_migration WHERE name = {newest}; "
        "UPDATE medusa.schema_version SET digest = 'older'", BETA,
    )  # fmt: skip
    for _ in range(2):
        code, found, _ = doctor(own.environment())
        check = found["migrations of beta"]
        assert (code, check["state"]) == (1, "fail")
        assert check["to_do"] == "run `medusa migrate --participant beta`"
    assert found["migrations of alpha"]["state"] == "ok"


@pytest.mark.long
def test_a_home_whose_database_is_gone_fails_alone(doctor: Doctor, watched: Watched) -> None:
    record = watched.settings.directory / "home.json"
    document = json.loads(record.read_text())
    document["participants"]["ghost"] = "medusa_ghost"
    record.write_text(json.dumps(document))
    try:
        code, found, _ = doctor(watched.environment())
    finally:
        del document["participants"]["ghost"]
        record.write_text(json.dumps(document))
    assert (code, found["home of ghost"]["state"]) == (1, "fail")
    assert found["leases of alpha"]["state"] == "ok"


@pytest.mark.long
def test_homes_in_the_embedded_server_are_examined_too(doctor: Doctor, server_folder: Path) -> None:
    directory = server_folder.parent / "kept"
    settings = Settings(catalog_url=None, directory=directory, test_data=directory)
    with make_home(settings, Participant("alpha"), keep=True):
        pass
    code, found, _ = doctor({"MEDUSA_DIR": str(directory)})
    assert code == 0
    assert found["LISTEN in alpha"]["state"] == "ok"
    EmbeddedServer(directory / "postgres").discard()


@pytest.mark.long
def test_a_metrics_port_is_looked_at_where_one_is_configured(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_checks, "METRICS_S_MAX", 0.1)  # nobody answers below
    environment = {"MEDUSA_DIR": str(tmp_path), "MEDUSA_METRICS_PORT": "0"}
    _, found, _ = doctor(environment)
    assert found["metrics port"]["state"] == "ok"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        # Nobody answers there: it is in use by something else.
        code, found, _ = doctor({**environment, "MEDUSA_METRICS_PORT": port})
    assert (code, found["metrics port"]["state"]) == (1, "fail")
    assert "choose another port" in found["metrics port"]["to_do"]


@pytest.mark.long
def test_a_port_on_which_a_driver_serves_its_metrics_is_well(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_checks, "METRICS_S_MAX", 60.0)  # it answers, however late
    with Watcher(Participant("alpha"), tmp_path, metrics_at=("127.0.0.1", 0)) as watcher:
        assert watcher.metrics_url is not None
        port = watcher.metrics_url.split(":")[2].split("/")[0]
        code, found, _ = doctor({"MEDUSA_DIR": str(tmp_path), "MEDUSA_METRICS_PORT": port})
    assert code == 0
    assert "serves its metrics" in found["metrics port"]["found"]


@pytest.mark.parametrize(
    ("ahead_ms", "certain_ms", "state"),
    [(3, 0, State.OK), (-900, 899, State.OK), (1_500, 1_400, State.WARN),
     (-1_500, 1_400, State.WARN), (40_000_000, 39_000_000, State.FAIL),
     (5_000, 0, State.OK)],
)  # fmt: skip
def test_a_clock_is_judged_by_what_is_certain_of_it(
    ahead_ms: float, certain_ms: float, state: State
) -> None:
    finding = clock_finding("clock", ahead_ms, certain_ms)
    assert finding.state is state
    if state is not State.OK:
        assert ("behind" in finding.found) == (ahead_ms < 0)
        assert "time server" in finding.to_do
