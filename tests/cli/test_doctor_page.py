"""`medusa doctor --page`: what the page lacks is named, and the printed command mends it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from pipelines.base.settings import Settings
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home, prepare_home
from pipelines.catalog.server.migrations import migrate
from pipelines.cli.main import main
from pipelines.homes.home import known_homes, make_home
from tests.hosting.platforms import port_of_ones_own
from tests.pages.browsed import served
from tests.pages.conftest import shown as shown  # a fixture
from tests.pages.pages_under_test import ALPHA, BETA, Shown
from tests.sql.test_migrations import baseline as baseline  # a fixture

LOGIN = "page login of alpha"
ACCESS = "MEDUSA_PAGE_HOMES"
"""The check of its value is named like the variable."""

Found = Mapping[str, Mapping[str, str]]
Doctor = Callable[[], tuple[int, Found]]


@pytest.fixture(scope="module")
def homes(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """Alpha and beta, for tests that change what their homes are made of."""
    settings = replace(
        Settings.from_environment({}),
        catalog_url=postgres_server.superuser_url(),
        directory=tmp_path_factory.mktemp("homes"),
    )
    for name in (ALPHA, BETA):
        with make_home(settings, name, keep=True):
            pass
    yield settings
    for database in known_homes(settings.directory).values():
        drop_home(postgres_server.superuser_url(), database)


@pytest.fixture
def doctor(
    homes: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Run it in the environment of these homes: exit code, and findings by name."""
    monkeypatch.setenv("MEDUSA_DIR", str(homes.directory))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", homes.catalog_url or "")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://127.0.0.1:{port_of_ones_own()}")
    monkeypatch.delenv(ACCESS, raising=False)

    def run() -> tuple[int, Found]:
        capsys.readouterr()
        code = main(["doctor", "--page", "--json"])
        document = json.loads(capsys.readouterr().out)
        assert document["ok"] == (code == 0)
        return code, {check["name"]: check for check in document["checks"]}

    return run


def change(settings: Settings, statement: str) -> None:
    """Send a statement to alpha's database as the administrator; {page} is the login."""
    database = known_homes(settings.directory)[ALPHA]
    url = catalog_url(settings.catalog_url or "").set(database=database)
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(statement.format(page=f"{database}_page", home=database)))
    finally:
        engine.dispose()


def printed(finding: Mapping[str, str]) -> str:
    """The command that a finding prints."""
    (command,) = re.findall(r"run `([^`]+)`", finding["to_do"])
    return str(command)


FAULTS = {
    "the file of its password": None,
    "its password at the server": "ALTER ROLE {page} PASSWORD 'another'",
    "the login itself": "DROP OWNED BY {page}; DROP ROLE {page}",
    "its rights": "DROP OWNED BY {page}",
    "its limits": "ALTER ROLE {page} IN DATABASE {home} RESET default_transaction_read_only",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_login_of_a_home_lacks_is_mended_by_the_command_that_is_printed(
    homes: Settings, doctor: Doctor, fault: str
) -> None:
    assert doctor()[1][LOGIN]["state"] == "ok"
    statement = FAULTS[fault]
    if statement is None:
        (homes.directory / "keys" / "alpha" / "logins" / "page").unlink()
    else:
        change(homes, statement)
    code, found = doctor()
    assert (code, found[LOGIN]["state"]) == (1, "fail")
    assert found["page login of beta"]["state"] == "ok"
    command = printed(found[LOGIN])
    assert command == "medusa migrate --participant alpha"
    assert main(shlex.split(command)[1:]) == 0
    assert doctor()[1][LOGIN]["state"] == "ok"


def test_a_home_that_was_made_before_the_page_is_mended_by_the_command_that_is_printed(
    homes: Settings, doctor: Doctor, baseline: Path
) -> None:
    admin_url = homes.catalog_url or ""
    database = known_homes(homes.directory)[ALPHA]
    drop_home(admin_url, database)
    migrate(prepare_home(admin_url, ALPHA, database).owner_role, ALPHA, baseline)
    change(homes, "DROP OWNED BY {page}; DROP ROLE {page}")
    (homes.directory / "keys" / "alpha" / "logins" / "page").unlink()
    code, found = doctor()
    assert (code, found[LOGIN]["state"]) == (1, "fail")
    assert main(shlex.split(printed(found[LOGIN]))[1:]) == 0
    assert doctor()[1][LOGIN]["state"] == "ok"


def test_a_home_that_nobody_is_shown_is_shown_after_the_command_that_is_printed(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {
        "anna: alpha": ("fail", "beta"),
        "anna: alpha; role:op: *; lea: gamma": ("warn", "gamma"),
        "anna: *; role:boss: alpha": ("warn", "role:boss"),
        "anna alpha": ("fail", "has the entry"),
    }
    for value, (state, what) in wrong.items():
        monkeypatch.setenv(ACCESS, value)
        finding = doctor()[1][ACCESS]
        assert finding["state"] == state
        assert what in finding["found"]
        shell = f'{printed(finding)}; printf %s "${ACCESS}"'
        mended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
        monkeypatch.setenv(ACCESS, mended.stdout)
        assert doctor()[1][ACCESS]["state"] == "ok", mended.stdout


def test_a_server_that_does_not_answer_or_lacks_the_page_is_named_with_how_to_start_it(
    shown: Shown, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = doctor()
    assert (code, found["api-server"]["state"]) == (1, "fail")
    assert "plugin" not in found
    assert "airflow api-server --port" in found["api-server"]["to_do"]
    with served(shown) as site:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"{site.url}/elsewhere")
        code, found = doctor()
        assert (code, found["api-server"]["state"], found["plugin"]["state"]) == (1, "ok", "fail")
        folder = re.findall(r"AIRFLOW__CORE__PLUGINS_FOLDER=(\S+) ", found["plugin"]["to_do"])[0]
        assert (Path(folder) / "medusa.py").is_file()
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", site.url)
        code, found = doctor()
        assert (code, {one["state"] for one in found.values()}) == (0, {"ok"})


def test_a_folder_without_a_home_is_a_failure_that_says_how_to_make_one(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    code, found = doctor()
    assert (code, found["homes"]["state"]) == (1, "fail")
    assert printed(found["homes"]) == "medusa apply --contracts contracts"
