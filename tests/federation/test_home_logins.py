"""Each home has logins of its own, whose passwords are files that its participant alone reads."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import make_url

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base.secret_files import secret_file
from pipelines.base.settings import REPOSITORY, Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import ROLES
from pipelines.catalog.server.migrations import migrate
from pipelines.catalog.server.roles import role_name
from pipelines.homes.home import (
    RECORD,
    exchange_login,
    known_homes,
    make_home,
    migration_url,
    open_home,
    open_homes,
    role_url,
    storage_of,
)
from pipelines.homes.home_logins import make_passwords, read_password
from pipelines.operations.findings import State
from pipelines.operations.machine_checks import check_machine
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.passwords import write_passwords
from pipelines.platform.jobs.supervised_homes import open_jobs
from tests.conftest import folder_on_memory
from tests.earlier_homes import make_reader
from tests.federation.building import federation_of

ALPHA, BETA = Participant("alpha"), Participant("beta")

# What a driver does first, and which files its process opens.
DRIVER = """
import json, os, sys
opened = set()
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        opened.add(os.path.abspath(os.fsdecode(arguments[0])))
sys.addaudithook(hook)
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.participant.home_session import open_session
settings = Settings.from_environment()
with open_session(settings, Participant("alpha")) as home_session:
    home_session.home.catalog.lines()
print(json.dumps(sorted(opened)))
"""


@pytest.fixture(scope="module")
def settings(postgres_server: EmbeddedServer) -> Iterator[Settings]:
    """The homes of alpha and beta on a server of one's own."""
    folder = folder_on_memory("medusa-logins-")
    with federation_of(postgres_server, folder / "homes") as made:
        make_both(made)
        yield made
    shutil.rmtree(folder)


@pytest.fixture
def without_url(settings: Settings) -> Settings:
    """Settings without MEDUSA_CATALOG_URL."""
    return replace(settings, catalog_url=None)


def make_both(settings: Settings) -> None:
    with open_homes(settings, alone=True) as homes:
        for participant in (ALPHA, BETA):
            homes.make(participant, None)


def opened_by_driver(settings: Settings) -> set[str]:
    """The files in the folder of homes that a driver of alpha opens, without MEDUSA_CATALOG_URL."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEDUSA")}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        env={**environment, "MEDUSA_DIR": str(settings.directory)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [Path(path) for path in json.loads(done.stdout)]
    here = [path for path in found if path.is_relative_to(settings.directory)]
    return {str(path.relative_to(settings.directory)) for path in here}


def secrets_among(files: set[str]) -> set[str]:
    return {file for file in files if file.startswith("keys/") or file == "postgres/password"}


OF_A_DRIVER = {"keys/alpha/logins/job"}
"""Its own login alone: partners are reached through their exchange servers."""


def test_no_other_user_may_hold_the_lock_of_the_folder(settings: Settings) -> None:
    """Whoever may read it may lock it, and nothing is changed in the homes meanwhile."""
    lock = settings.directory / "lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    lock.chmod(0o644)  # as an earlier version made it
    make_both(settings)
    assert lock.stat().st_mode & 0o777 == 0o600


def test_no_other_user_may_read_the_files_of_a_home(settings: Settings) -> None:
    for participant in (ALPHA, BETA):
        assert storage_of(settings.directory, participant).stat().st_mode & 0o777 == 0o700


@pytest.mark.long
def test_a_driver_opens_the_file_of_its_login_and_needs_no_url(settings: Settings) -> None:
    opened = opened_by_driver(settings)
    assert RECORD in opened
    assert secrets_among(opened) == OF_A_DRIVER


@pytest.mark.long
def test_a_driver_on_an_embedded_server_opens_no_password_of_the_administrator(
    server_folder: Path,
) -> None:
    directory = server_folder.parent
    embedded = Settings(catalog_url=None, directory=directory, test_data=directory)
    try:
        make_both(embedded)
        opened = opened_by_driver(embedded)
        assert "postgres/lock" in opened
        assert secrets_among(opened) == OF_A_DRIVER
    finally:
        EmbeddedServer(directory / "postgres").discard()


def test_the_record_has_the_address_of_the_server_and_no_login(
    settings: Settings, postgres_server: EmbeddedServer
) -> None:
    text = (settings.directory / RECORD).read_text()
    assert f"127.0.0.1:{postgres_server.port}" in text
    administrator = make_url(postgres_server.superuser_url())
    for secret in (administrator.password, "postgres:", "@"):
        assert str(secret) not in text


def test_a_home_opens_without_a_url_and_with_one_of_which_only_the_address_is_used(
    settings: Settings, without_url: Settings, postgres_server: EmbeddedServer
) -> None:
    other = f"postgresql://nobody:nothing@127.0.0.1:{postgres_server.port}/nowhere"
    for given in (settings, without_url, replace(settings, catalog_url=other)):
        with open_home(given, ALPHA) as home:
            assert home.catalog.participant == ALPHA
        with open_home(given, ALPHA, as_owner=True) as home:
            assert home.catalog.lines() == ()
        with exchange_login(given, BETA) as (url, _):
            assert make_url(url).username == f"{known_homes(given.directory)[BETA]}_exchange"
    elsewhere = replace(settings, catalog_url="postgresql://nobody@127.0.0.1:1/nowhere")
    with pytest.raises(Unavailable), open_home(elsewhere, ALPHA):
        pass


@pytest.mark.long
def test_the_doctor_and_supervision_need_no_url(
    without_url: Settings, postgres_server: EmbeddedServer
) -> None:
    checked = {one.name: one for one in check_machine(without_url)}
    assert f"127.0.0.1:{postgres_server.port}/ answers" in checked["postgres"].found
    for name in ("migrations of alpha", "LISTEN in beta", "leases of beta"):
        assert checked[name].state is State.OK
    with open_jobs(without_url) as jobs:
        assert jobs.of(ALPHA).mark()
    (without_url.directory / "keys/beta/logins/job").rename(without_url.directory / "elsewhere")
    checked = {one.name: one for one in check_machine(without_url)}
    (without_url.directory / "elsewhere").rename(without_url.directory / "keys/beta/logins/job")
    assert "run medusa apply again" in checked["home of beta"].found
    assert checked["leases of alpha"].state is State.OK


def test_homes_are_made_and_migrated_by_the_administrator_alone(without_url: Settings) -> None:
    with (
        pytest.raises(Refused, match="set MEDUSA_CATALOG_URL"),
        open_homes(without_url, alone=True) as homes,
    ):
        homes.url(ALPHA)
    with (
        pytest.raises(Refused, match="set MEDUSA_CATALOG_URL"),
        make_home(without_url, ALPHA, keep=True),
    ):
        pass
    with pytest.raises(Refused, match="set MEDUSA_CATALOG_URL"), migration_url(without_url, ALPHA):
        pass
    assert not (without_url.directory / "postgres").exists()


def can_log_in(url: str) -> bool:
    try:
        psycopg2.connect(url.replace("+psycopg2", "")).close()
    except psycopg2.OperationalError as error:
        if re.search("password authentication failed|permission denied", str(error)):
            return False
        raise
    return True


def test_no_login_of_one_participant_is_one_of_another(
    settings: Settings, postgres_server: EmbeddedServer
) -> None:
    databases = known_homes(settings.directory)
    assert len(
        {read_password(settings.directory, p, r) for p in databases for r in ROLES}
    ) == 2 * len(ROLES)
    for mine, other in ((ALPHA, BETA), (BETA, ALPHA)):
        for role in ROLES:
            own = make_url(role_url(settings.directory, postgres_server.address, mine, role))
            theirs = databases[other]
            name = role_name(theirs, role)
            for url, is_let_in in (
                (own, True),
                (own.set(database=theirs), False),
                (own.set(database=theirs, username=name), False),
            ):
                assert can_log_in(url.render_as_string(hide_password=False)) is is_let_in


def files_of(directory: Path) -> Mapping[str, str]:
    return {path.name: path.read_text() for path in (directory / "keys/alpha/logins").iterdir()}


def test_applying_again_keeps_the_passwords_and_restores_those_that_are_missing(
    settings: Settings, without_url: Settings
) -> None:
    before = files_of(settings.directory)
    assert before.keys() == set(ROLES)
    for role in ("job", "analyst"):
        (settings.directory / "keys/alpha/logins" / role).unlink()
    with (
        pytest.raises(Unavailable, match=r"login job .* run medusa apply again"),
        open_home(without_url, ALPHA),
    ):
        pass
    with open_home(without_url, BETA):
        pass
    with open_homes(settings, alone=True) as homes:
        assert homes.url(ALPHA) is not None
    after = files_of(settings.directory)
    assert {role for role in ROLES if before[role] != after[role]} == {"job", "analyst"}
    with open_homes(without_url, alone=False) as homes:
        assert all(can_log_in(str(homes.url(ALPHA, role))) for role in ROLES)


def test_migrating_sets_the_passwords_in_the_files_and_the_address_of_the_server(
    settings: Settings, without_url: Settings, postgres_server: EmbeddedServer
) -> None:
    record = settings.directory / RECORD
    before = record.read_text()
    # As after a restore on another server.
    record.write_text(before.replace(f":{postgres_server.port}", ":1"))
    with pytest.raises(Unavailable), open_home(without_url, ALPHA):
        pass
    for participant in (ALPHA, BETA):
        with migration_url(settings, participant):
            pass
    assert record.read_text() == before
    with open_homes(settings, alone=False) as homes:
        assert all(can_log_in(str(homes.url(ALPHA, role))) for role in ROLES)


def test_the_file_for_psql_has_the_analysts_of_homes_with_a_password(
    without_url: Settings, tmp_path: Path
) -> None:
    shutil.copytree(without_url.directory / "keys", tmp_path / "keys")
    shutil.copy(without_url.directory / RECORD, tmp_path)
    folder = PlatformFolder(tmp_path)
    folder.make()
    moved = replace(without_url, directory=tmp_path)
    for participants in ((ALPHA, BETA), (BETA,), ()):
        command = write_passwords(folder, moved, "")
        assert (command is None) == (not participants)
        if command is not None:
            expected = [read_password(tmp_path, name, "analyst") for name in participants]
            lines = folder.pgpass.read_text().splitlines()
            assert [line.rpartition(":")[2] for line in lines] == expected
            assert f"{known_homes(tmp_path)[participants[0]]}_analyst" in command
            (tmp_path / "keys" / participants[0] / "logins" / "analyst").unlink()


def apply_again(settings: Settings) -> None:
    with open_homes(settings, alone=True) as homes:
        assert homes.url(ALPHA) is not None


def migrate_again(settings: Settings) -> None:
    with migration_url(settings, ALPHA) as url:
        migrate(url, ALPHA)


@pytest.mark.parametrize("bring_up_to_date", [apply_again, migrate_again])
def test_the_login_that_partners_had_is_dropped_with_its_file(
    settings: Settings,
    postgres_server: EmbeddedServer,
    bring_up_to_date: Callable[[Settings], None],
) -> None:
    database = known_homes(settings.directory)[ALPHA]
    file = secret_file(settings.directory, ALPHA, "logins", "reader")
    file.make(lambda: "secret")
    url = make_reader(postgres_server.superuser_url(), database, "secret")
    with (
        closing(psycopg2.connect(url.replace("+psycopg2", ""))) as left_open,
        left_open.cursor() as cursor,
    ):
        cursor.execute("SELECT path FROM medusa_api.published_files")
        for _ in range(2):
            bring_up_to_date(settings)
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("SELECT 1")
    assert not can_log_in(url)
    assert not file.path.exists()
    superuser = postgres_server.superuser_url().replace("+psycopg2", "")
    with closing(psycopg2.connect(superuser)) as server, server.cursor() as cursor:
        cursor.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE '%\\_reader'")
        assert cursor.fetchall() == []


@contextmanager
def is_refused(says: str) -> Iterator[None]:
    with pytest.raises(Refused, match=says):
        yield


def test_a_password_that_others_could_have_read_is_refused(tmp_path: Path) -> None:
    make_passwords(tmp_path, ALPHA)
    path = tmp_path / "keys/alpha/logins/job"
    assert path.stat().st_mode & 0o777 == 0o600
    for place, mode, before in (
        (path, 0o640, 0o600), (path.parent, 0o755, 0o700), (path.parent.parent, 0o710, 0o700),
    ):  # fmt: skip
        assert place.stat().st_mode & 0o777 == before
        place.chmod(mode)
        with is_refused("may be read by others"):
            read_password(tmp_path, ALPHA, "job")
        with is_refused("may be read by others"):
            make_passwords(tmp_path, ALPHA)
        place.chmod(before)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with is_refused("no link"):
        read_password(tmp_path, ALPHA, "job")
    path.unlink()
    for text in ("", "\n", "x" * 300, "é", "a\0b"):
        path.write_text(text)
        path.chmod(0o600)
        with is_refused("not as Medusa wrote it"):
            read_password(tmp_path, ALPHA, "job")
    shutil.rmtree(path.parent)
    path.parent.symlink_to(tmp_path)
    for read in (
        lambda: read_password(tmp_path, ALPHA, "job"),
        lambda: make_passwords(tmp_path, ALPHA),
    ):
        with is_refused("is not a folder"):
            read()


@pytest.mark.parametrize(
    "address",
    ["", "db:5432", "mysql://db/", "postgresql+psycopg2://who@db/",
     "postgresql+psycopg2://who:secret@db/", "postgresql+psycopg2://db/?password=secret",
     "postgresql+psycopg2://db/name", 5432, None, ["postgresql+psycopg2://db/"]],
)  # fmt: skip
def test_a_record_with_another_address_than_medusa_writes_is_refused(
    tmp_path: Path, address: object
) -> None:
    document = {"participants": {"alpha": "medusa_alpha"}, "servers": {"alpha": address}}
    (tmp_path / RECORD).write_text(json.dumps(document))
    with pytest.raises(MedusaError, match="cannot be read as Medusa wrote it") as caught:
        known_homes(tmp_path)
    assert "secret" not in str(caught.value)
