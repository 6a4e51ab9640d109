"""docker-compose.yml as a document: what it promises can be read off it, without an engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import permutations
from pathlib import Path
from ssl import SSLContext
from threading import Thread
from typing import Any

import jsonschema
import pytest
import yaml

from medusa_core.names import Participant
from pipelines.base.settings import REPOSITORY
from pipelines.exchange.server_certificates import make_certificate, server_context
from pipelines.homes.exchange_addresses import ServerAddress, address_path, write_address
from tests.contracts.shipped import CONTRACTS, OWNERS

BETA = Participant("beta")
REACHABLE = 'medusa_catalog_reachable{participant="beta"} 1.0\n'
FILE = REPOSITORY / "docker-compose.yml"
SCHEMA = REPOSITORY / "third_party" / "compose-spec" / "compose-spec.json"
SECRETS = (*(f"MEDUSA_{owner.upper()}_PASSWORD" for owner in OWNERS), "MEDUSA_SPARK_SECRET")
ENDS = {f"{owner}-apply" for owner in OWNERS}
"""Services that do something once."""


@pytest.fixture(scope="module")
def written() -> str:
    return FILE.read_text()


@pytest.fixture(scope="module")
def services(written: str) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(written)["services"]
    return found


def ours(services: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The services that run our image."""
    return {name: one for name, one in services.items() if one["image"] == "medusa"}


@pytest.mark.parametrize("path", ["docker-compose.yml", "tests/compose/override.yml"])
def test_it_is_what_the_compose_specification_says(path: str) -> None:
    schema = json.loads(SCHEMA.read_text())
    document = yaml.safe_load((REPOSITORY / path).read_text())
    assert [
        f"{error.json_path}: {error.message}"
        for error in jsonschema.Draft202012Validator(schema).iter_errors(document)
    ] == []


def test_the_check_sees_a_word_that_compose_does_not_know(written: str) -> None:
    document = yaml.safe_load(written)
    document["services"]["alpha"]["healtcheck"] = document["services"]["alpha"].pop("healthcheck")
    checker = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    (error,) = checker.iter_errors(document)
    assert "'healtcheck' was unexpected" in error.message


def test_it_has_neither_of_the_words_that_one_of_the_two_versions_of_compose_refuses(
    written: str,
) -> None:
    assert not {"name", "version"} & set(yaml.safe_load(written))


def test_no_secret_has_a_default(written: str) -> None:
    for name in SECRETS:
        uses = re.findall(r"\$\{" + name + r"(.[^}]*)\}", written)
        assert uses, name
        assert all(one.startswith(f":?set {name} to ") for one in uses), uses
    values = re.findall(r"(?im)^ *\w*(?:password|secret)\w*: *(.+)$", written)
    assert len(values) == len(OWNERS) + 2
    assert all(value.startswith('"${MEDUSA_') for value in values), values


def test_every_owner_has_a_participant_a_postgres_contracts_and_files_of_its_own(
    services: Mapping[str, Mapping[str, Any]],
) -> None:
    run = {name for name, one in services.items() if one.get("command") == ["medusa", "run"]}
    assert run == set(OWNERS)
    for owner in OWNERS:
        files = [
            f"{owner}:/srv/medusa",
            f"${{MEDUSA_CONTRACTS:-./contracts}}/{owner}:/srv/given:ro",
        ]
        assert services[owner]["volumes"] == services[f"{owner}-apply"]["volumes"] == files
        assert services[f"{owner}-postgres"]["volumes"][0].startswith(f"{owner}-postgres:")
    assert (CONTRACTS / "delta").is_dir()


def test_nobody_reaches_what_another_owner_has(
    services: Mapping[str, Mapping[str, Any]],
) -> None:
    """Postgres is on its owner's network alone; no volume and no login is of two owners."""
    its_airflow = {"delta": {"airflow"}}
    for owner in OWNERS:
        own = {owner, f"{owner}-apply", f"{owner}-postgres"} | its_airflow.get(owner, set())
        assert services[f"{owner}-postgres"]["networks"] == [owner]
        assert {name for name, one in services.items() if owner in one["networks"]} == own
        holds = {
            name
            for name, one in services.items()
            if any(
                volume.startswith((f"{owner}:", f"{owner}-")) for volume in one.get("volumes", ())
            )
        }
        assert holds == own
        knows = {
            name
            for name, one in services.items()
            if f"_{owner.upper()}_PASSWORD" in json.dumps(one)
        }
        assert knows == own - {owner}


def test_what_runs_participants_is_reached_by_partners_by_its_name(
    services: Mapping[str, Mapping[str, Any]],
) -> None:
    names = {
        name: one["environment"]["MEDUSA_EXCHANGE_NAME"]
        for name, one in services.items()
        if "MEDUSA_EXCHANGE_NAME" in one.get("environment", {})
    }
    assert names == {name: name for name in {*OWNERS, "airflow"}}
    assert all("federation" in services[name]["networks"] for name in names)
    ports = {name: services[name]["environment"]["MEDUSA_EXCHANGE_PORT"] for name in names}
    assert set(ports.values()) == {"8443"}, "a restarted container is found where it was"


def test_only_what_makes_homes_has_an_administrators_login(
    services: Mapping[str, Mapping[str, Any]],
) -> None:
    has_login = {name for name, one in ours(services).items() if "_PASSWORD" in json.dumps(one)}
    assert has_login == {*ENDS, "airflow"}


def test_what_lasts_is_restarted_watched_and_limited(
    services: Mapping[str, Mapping[str, Any]],
) -> None:
    for name, one in services.items():
        assert one["init"] is True, name
        assert {"mem_limit", "cpus", "pids_limit"} <= set(one), name
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["logging"]["options"]["max-size"], name
        assert "privileged" not in one, name
        assert one["restart"] == ("no" if name in ENDS else "unless-stopped"), name
        assert ("healthcheck" in one) is (name not in ENDS), name


def test_only_airflow_is_reached_from_outside_and_from_this_machine_alone(
    services: Mapping[str, Mapping[str, Any]], written: str
) -> None:
    published = {name: one["ports"] for name, one in services.items() if "ports" in one}
    assert set(published) == {"airflow"}
    assert all(port.startswith("127.0.0.1:") for port in published["airflow"])
    networks = yaml.safe_load(written)["networks"]
    open_ = {name for name, one in networks.items() if not one.get("internal")}
    assert {name for name, one in services.items() if open_ & set(one["networks"])} == {"airflow"}


def test_a_participant_is_cut_off_by_taking_it_off_one_network(
    services: Mapping[str, Mapping[str, Any]],
) -> None:
    for owner, other in permutations(OWNERS, 2):
        shared = set(services[owner]["networks"]) & set(services[other]["networks"])
        assert shared == {"federation"}


def test_the_owners_join_delta_by_a_script_that_stores_no_code() -> None:
    script = (REPOSITORY / "docker" / "join.sh").read_text()
    assert "partner invite delta < /dev/null |" in script
    assert "partner accept -" in script
    assert ">" not in script.replace("#!", "")


def test_the_image_runs_as_nobody_in_particular_over_a_root_that_cannot_be_written(
    services: Mapping[str, Mapping[str, Any]],
) -> None:
    users = re.findall(r"^USER (\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["10001:10001"]
    for name, one in ours(services).items():
        assert one["read_only"] is True, name
        assert "user" not in one, name


def test_the_image_holds_all_that_the_code_reads_beside_itself() -> None:
    """Whatever stands behind REPOSITORY in the code is let into the image."""
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert all((REPOSITORY / name).exists() for name in let_in), let_in
    read = set()
    for path in (REPOSITORY / "pipelines").rglob("*.py"):
        read |= set(re.findall(r'REPOSITORY / "(\w+)"', path.read_text()))
    assert {"dags", "pipelines", "third_party"} <= read
    assert read <= let_in
    assert not any(fnmatch(".env", name) for name in let_in)


def asked(part: str, port: int, directory: Path | None = None) -> tuple[int, str]:
    """What the health check of a container says; `directory` is its MEDUSA_DIR."""
    script = REPOSITORY / "docker" / "healthy.py"
    told = subprocess.run(
        [sys.executable, script, part, str(port)],
        env={**os.environ, "MEDUSA_DIR": str(directory or "")},
        capture_output=True,
        text=True,
        check=False,
    )
    return told.returncode, told.stdout + told.stderr


@pytest.fixture
def answers() -> Iterator[tuple[int, dict[str, str]]]:
    """The port of a server, and what it answers at which path."""
    with answering() as found:
        yield found


@contextmanager
def answering(tls: SSLContext | None = None) -> Iterator[tuple[int, dict[str, str]]]:
    """The same while the block runs, with TLS if a context is given."""
    pages: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(200 if page is not None else 404)
            self.end_headers()
            self.wfile.write((page or "").encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, pages
        server.shutdown()
        thread.join()


def served_at(directory: Path, url: str, pin: str | None = None) -> Path:
    """A folder in which beta's server wrote that it is reached there."""
    write_address(directory, BETA, ServerAddress(url=url, pin=pin))
    return directory


@pytest.mark.long
def test_a_participant_that_does_not_reach_its_catalog_is_not_healthy(
    answers: tuple[int, dict[str, str]], tmp_path: Path
) -> None:
    port, pages = answers
    folder = served_at(tmp_path, f"http://127.0.0.1:{port}")
    assert asked("participant", port, folder)[0] == 1, "nothing is served"
    pages["/metrics"] = REACHABLE.replace("1.0", "0.0")
    assert asked("participant", port, folder) == (1, "the catalog is not reached\n")
    pages["/metrics"] = REACHABLE
    assert asked("participant", port, folder) == (0, "")


@pytest.mark.long
def test_a_participant_whose_exchange_is_not_served_is_not_healthy(
    answers: tuple[int, dict[str, str]], tmp_path: Path
) -> None:
    port, pages = answers
    pages["/metrics"] = REACHABLE
    code, output = asked("participant", port, tmp_path)
    assert code == 1
    assert output.startswith("the exchange of beta is not served: ")
    with answering() as (ended, _):
        folder = served_at(tmp_path, f"http://127.0.0.1:{ended}")
        assert asked("participant", port, folder) == (0, ""), "an answer of any status counts"
    code, output = asked("participant", port, folder)
    assert code == 1
    assert output.startswith(f"the exchange of beta does not answer at http://127.0.0.1:{ended}: ")
    address_path(tmp_path, BETA).write_text("")
    assert asked("participant", port, tmp_path)[0] == 1, "an empty file has no address"


def test_the_health_check_reaches_an_exchange_with_a_certificate_that_its_home_made(
    answers: tuple[int, dict[str, str]], tmp_path: Path
) -> None:
    port, pages = answers
    pages["/metrics"] = REACHABLE
    certificate = make_certificate(tmp_path / "server.pem", BETA)
    with answering(server_context(certificate, None)) as (secured, _):
        folder = served_at(tmp_path, f"https://127.0.0.1:{secured}", "0" * 64)
        assert asked("participant", port, folder) == (0, "")


@pytest.mark.long
def test_the_health_check_reads_the_metrics_that_a_driver_serves(
    answers: tuple[int, dict[str, str]], tmp_path: Path
) -> None:
    from prometheus_client import generate_latest

    from pipelines.catalog.memory.memory_catalog import MemoryCatalog
    from pipelines.catalog.memory.store import ManualClock
    from pipelines.watching.metrics import Metrics

    port, pages = answers
    metrics = Metrics("beta", str, MemoryCatalog(Participant("beta"), ManualClock(1_000)))
    pages["/metrics"] = generate_latest(metrics.registry).decode()
    folder = served_at(tmp_path, f"http://127.0.0.1:{port}")
    assert asked("participant", port, folder) == (0, "")


def test_airflow_is_healthy_when_all_of_its_components_are(
    answers: tuple[int, dict[str, str]],
) -> None:
    port, pages = answers
    names = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    health = {name: {"status": "healthy"} for name in names}
    pages["/api/v2/monitor/health"] = json.dumps(health)
    assert asked("airflow", port) == (0, "")
    health["triggerer"]["status"] = "unhealthy"
    pages["/api/v2/monitor/health"] = json.dumps(health)
    assert asked("airflow", port) == (1, "not healthy: triggerer\n")


def test_the_health_check_of_nothing_that_there_is_is_a_wrong_use() -> None:
    code, output = asked("postgres", 1)
    assert code == 2
    assert "usage" in output
