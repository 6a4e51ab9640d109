"""`medusa migrate` says what it applied to a home, and that there was nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from tests.cli.watched import Watched, own_watched_homes

OLDER = """
UPDATE medusa.schema_version SET digest = 'older';
UPDATE medusa.schema_file SET sha256 = 'older' WHERE path = 'functions/home/to_ms'
"""


@pytest.fixture
def homes(
    postgres_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    with own_watched_homes(postgres_server, tmp_path / "homes") as watched:
        for name, value in watched.environment().items():
            monkeypatch.setenv(name, value)
        yield watched


def test_migrate_names_what_it_applied_and_then_finds_nothing_to_do(
    homes: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.change(OLDER)
    assert main(["migrate", "--participant", "alpha"]) == 0
    assert capsys.readouterr().out == "applied functions/home/to_ms\n"
    assert main(["migrate", "--participant", "alpha"]) == 0
    assert capsys.readouterr().out == "nothing to do: up to date\n"


@pytest.mark.long
def test_a_home_of_an_earlier_medusa_is_refused_by_every_command_in_one_sentence(
    homes: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.change("DROP TABLE medusa.schema_version")
    for command in (["migrate"], ["status"], ["streams"], ["run", "--explain"]):
        assert main([*command, "--participant", "alpha"]) == Refused.exit_code, command
        output = capsys.readouterr()
        assert "of alpha was made by an earlier Medusa" in output.err + output.out, command
        assert "drop the database medusa_" in output.err + output.out, command
        assert "Traceback" not in output.err
