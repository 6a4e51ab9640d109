"""The command line itself: exit codes, one sentence, and what may not be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli import contract
from pipelines.cli.main import COMMANDS, main, parser

HEAVY = ("pyspark", "pyarrow", "sqlalchemy", "great_expectations", "pandas", "numpy", "duckdb",
         "sqlglot", "yaml", "psycopg2", "jsonschema")  # fmt: skip
HELPS = [[]] + [[name] for name in COMMANDS] + [["contract", name] for name in contract.COMMANDS]


def test_the_help_of_every_command_imports_nothing_heavy() -> None:
    code = (
        "import contextlib, sys\nfrom pipelines.cli.main import main\n"
        f"for words in {HELPS!r}:\n"
        "    with contextlib.suppress(SystemExit):\n        main([*words, '--help'])\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "[]"
    assert sum(line.startswith("usage: medusa") for line in lines) == len(HELPS)


def test_an_invocation_imports_the_module_of_its_command_alone() -> None:
    code = (
        "import sys\nfrom pipelines.cli.main import main\n"
        "try:\n    main(['trim', '--help'])\n"
        "finally:\n    print(sorted(m for m in sys.modules if m.startswith('pipelines.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1]
    assert "'pipelines.cli.trim'" in imported
    assert [name for name in COMMANDS if f"'pipelines.cli.{name}'" in imported] == ["trim"]


def test_a_command_has_the_same_options_where_it_is_the_only_one() -> None:
    of_all = parser().commands()
    assert list(of_all) == list(COMMANDS)
    for name, one in of_all.items():
        assert parser(name).commands()[name].format_help() == one.format_help()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["read", "x", "--limit", "0"], ["replay"]])
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize("command", [["streams"], ["status"], ["read", "x"]])
def test_without_a_home_the_error_says_how_to_create_one(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    assert main(command) == 2
    assert "medusa demo" in capsys.readouterr().err


def test_an_unreachable_catalog_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDUSA_CATALOG_URL", "postgresql://who:secret@127.0.0.1:1/nowhere")
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    assert main(["streams", "--participant", "somebody"]) == 4
    output = capsys.readouterr().err
    assert "reached" in output
    assert "secret" not in output


def test_doctor_reaches_a_postgres_that_is_there(
    postgres_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("MEDUSA_CATALOG_URL", postgres_server.superuser_url())  # type: ignore[attr-defined]
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    assert main(["doctor"]) == 0
    assert "answers: Postgres" in capsys.readouterr().out
