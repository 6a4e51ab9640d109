"""Commands that read change nothing: they do their work on a server that lets nobody write."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from medusa_core.errors import Refused, Unavailable
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.schema_files import known_files
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import create_home
from pipelines.cli.main import main
from pipelines.homes.home import known_homes, open_homes, storage_of
from tests.catalog import building as a
from tests.cli.watched import Watched, watched_homes
from tests.sweeps import long_but
from tests.waiting import until

COMMANDS = (["status"], ["streams"], ["read", "--quarantine"])
every_command = pytest.mark.parametrize("command", long_but(1, COMMANDS), ids=" ".join)


@pytest.fixture(scope="module")
def homes(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    with watched_homes(postgres_server, tmp_path_factory.mktemp("read_only")) as found:
        yield found


@pytest.fixture
def run(
    homes: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Sequence[str]], tuple[int, str, str]]:
    """Run a command on alpha's home: exit code, output, errors."""

    def once(command: Sequence[str]) -> tuple[int, str, str]:
        for name, value in homes.environment().items():
            monkeypatch.setenv(name, value)
        code = main([*command, "--participant", "alpha", "--json"])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return once


Run = Callable[[Sequence[str]], tuple[int, str, str]]


def say(url: str, *statements: str) -> list[object]:
    """Send statements, one by one; what each answered, if anything."""
    engine = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            results = [connection.execute(text(statement)) for statement in statements]
            return [result.scalar() for result in results if result.returns_rows]
    finally:
        engine.dispose()


@pytest.fixture
def nobody_writes(homes: Watched) -> Iterator[None]:
    """No transaction on the server may write unless it says so itself; none of ours does."""
    url = homes.settings.catalog_url or ""

    def tick(to: str, shown: str) -> None:
        say(url, f"ALTER SYSTEM {to}", "SELECT pg_reload_conf()")
        until(lambda: say(url, "SHOW default_transaction_read_only") == [shown], f"it is {shown}")

    tick("SET default_transaction_read_only = on", "on")
    yield
    tick("RESET default_transaction_read_only", "off")


@every_command
def test_a_command_that_reads_needs_no_right_to_write(
    homes: Watched, run: Run, nobody_writes: None, command: list[str]
) -> None:
    database = known_homes(homes.settings.directory)[a.ALPHA]
    with pytest.raises(Refused):
        create_home(homes.settings.catalog_url or "", a.ALPHA, database)
    code, out, err = run(command)
    assert (code, err) == (0, "")
    assert json.loads(out)


def test_to_look_what_apply_would_do_needs_no_right_to_write(
    homes: Watched, nobody_writes: None
) -> None:
    with open_homes(homes.settings, alone=False) as found:
        assert say(found.url(a.ALPHA) or "", "SELECT participant FROM medusa.home") == [a.ALPHA]
        assert found.url(a.Participant("nobody")) is None


@every_command
def test_a_home_that_lacks_a_migration_is_left_as_it_is_and_the_command_says_what_to_run(
    homes: Watched, run: Run, command: list[str]
) -> None:
    last = known_files().migrations[-1]
    homes.change(
        f"DELETE FROM medusa.schema_migration WHERE name = '{last.name}'; "
        "UPDATE medusa.schema_version SET digest = 'older'"
    )
    try:
        code, out, err = run(command)
    finally:
        homes.change(
            "INSERT INTO medusa.schema_migration (name, sha256) "
            f"VALUES ('{last.name}', '{last.sha256}'); "
            f"UPDATE medusa.schema_version SET digest = '{known_files().digest}'"
        )
    assert code == Unavailable.exit_code
    assert f"lacks migration {last.name}: run medusa migrate" in err
    assert out == ""


def test_a_storage_root_that_has_gone_is_not_made_by_looking(homes: Watched, run: Run) -> None:
    storage: Path = storage_of(homes.settings.directory, a.ALPHA)
    shutil.rmtree(storage)
    try:
        code, _, _ = run(["status"])
        assert code == 0
        assert not storage.exists()
    finally:
        storage.mkdir()
