"""`medusa deliver`: once, also in a home that has no contracts, and without saying a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import main
from tests.sinks.building import (
    COPIES,
    READINGS,
    URL_VARIABLE,
    Database,
    SinkHome,
    a_row,
    parquet_rows,
)
from tests.sweeps import long_but


@pytest.fixture
def typed(home: SinkHome, monkeypatch: pytest.MonkeyPatch) -> SinkHome:
    """A home whose commands are typed here."""
    monkeypatch.setenv("MEDUSA_DIR", str(home.settings.directory))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", str(home.settings.catalog_url))
    monkeypatch.setenv(URL_VARIABLE, home.target_url)
    return home


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main(["deliver", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_folder_is_declared_delivered_and_gone_on_with(
    typed: SinkHome, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    typed.write(READINGS, 0, 1, [a_row(0, 0)])
    first = document(capsys, "--stream", "readings", "--parquet", "lake")
    (sink,) = first["sinks"]
    assert (sink["sink"], sink["rows_now"]) == ("parquet", 1)
    assert sink["target"] == str(tmp_path / "lake")
    typed.write(READINGS, 1, 2, [a_row(1, 1)])
    assert [s["rows_now"] for s in document(capsys)["sinks"]] == [1]
    assert parquet_rows(tmp_path / "lake") == typed.rows(READINGS)


def test_a_table_is_delivered_and_the_password_is_said_nowhere(
    typed: SinkHome, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.write(COPIES, 0, 1, [a_row(0, 0), a_row(0, 0)])
    words = ("--stream", "copies", "--postgres", f"${{{URL_VARIABLE}}}", "--table", "rows")
    (sink,) = document(capsys, *words, "--key", "id", "--sink", "desk")["sinks"]
    assert (sink["sink"], sink["target"], sink["rows"]) == ("desk", "table public.rows", 2)
    assert database.rows() == [a_row(0, 0)]
    assert main(["deliver"]) == 0
    assert database.password not in "".join(capsys.readouterr())
    assert database.password not in repr(typed.sink("desk"))


def test_a_sink_that_fails_is_reported_and_the_others_are_delivered(
    typed: SinkHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "mine").write_text("x")
    typed.declare(READINGS, "bad", kind="parquet", path=str(tmp_path / "bad"))
    typed.declare(READINGS, "good", kind="parquet", path=str(tmp_path / "good"))
    typed.write(READINGS, 0, 1, [a_row(0, 0)])
    assert main(["deliver"]) == 2
    shown = capsys.readouterr()
    assert "'mine'" in shown.err
    assert "Traceback" not in shown.err
    assert parquet_rows(tmp_path / "good") == typed.rows(READINGS)


@pytest.mark.long
def test_a_sink_is_not_moved_by_the_way(
    typed: SinkHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.write(READINGS, 0, 1, [a_row(0, 0)])
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    document(capsys, "--stream", "readings", "--csv", first)
    assert main(["deliver", "--stream", "readings", "--csv", second]) == 2
    told = capsys.readouterr().err
    assert f"delivers into {first} already" in told
    assert "--sink NAME" in told
    assert "--withdraw" in told
    assert not (tmp_path / "second").exists()
    document(capsys, "--stream", "readings", "--csv", second, "--sink", "other")
    typed.write(READINGS, 1, 2, [a_row(1, 1)])
    assert [s["rows_now"] for s in document(capsys)["sinks"]] == [1, 1]
    assert main(["deliver", "--stream", "readings", "--sink", "csv", "--withdraw"]) == 0
    document(capsys, "--stream", "readings", "--csv", str(tmp_path / "third"))


def test_a_sink_is_withdrawn(
    typed: SinkHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.declare(READINGS, "lake", kind="parquet", path=str(tmp_path / "lake"))
    assert main(["deliver", "--withdraw", "--stream", "readings", "--sink", "lake"]) == 0
    assert "is withdrawn" in capsys.readouterr().out
    assert typed.home.catalog.sinks() == ()
    assert main(["deliver"]) == 2
    assert "no sink is declared" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    long_but(
        3,
        [
            ("--parquet x", "give --stream S"),
            ("--stream readings --parquet x --csv y", "give one of"),
            ("--stream readings --parquet x --table t", "go with --postgres"),
            ("--stream readings --postgres ${MEDUSA_SINK_U}", "give --table"),
            ("--stream readings --postgres postgresql://u:secretword@h/d --table t", "a password"),
            ("--stream readings --key id", "goes with a target"),
            ("--stream reading --parquet x", "did you mean 'readings'?"),
            ("--stream reading", "those of none are delivered"),
            ("--withdraw", "give --stream S and --sink NAME"),
            ("--stream readings --parquet x --from soon", "is no time"),
            ("--stream readings --parquet x --sink A", "is not a name"),
        ],
    ),
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    typed: SinkHome, words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deliver", *words.split()]) == 2
    output = capsys.readouterr().err
    assert told in output
    assert "secretword" not in output
