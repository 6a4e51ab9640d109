"""`medusa init`: a project that is whole, in a folder that nobody had anything in."""

from __future__ import annotations

import csv
import io
import shlex
from pathlib import Path

import pytest

from medusa_core.errors import Unavailable
from pipelines.cli.main import main
from pipelines.contracts.federation import read_federation
from pipelines.operations.project_files import project_files, write_project
from pipelines.operations.project_sample import RECORDS

SAMPLE = "contracts/samples/requests.csv"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which is typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_project_is_named_after_its_folder_which_may_have_spaces(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "my Shop-2"]) == 0
    output = capsys.readouterr().out
    assert "cd 'my Shop-2'" in output
    files = written(here / "my Shop-2")
    assert files == project_files("my_shop_2")
    assert {"README.md", ".gitignore", SAMPLE, "contracts/networks/my_shop_2.py"} <= set(files)
    assert not any("PROJECT_NAME" in path or "PROJECT_NAME" in files[path] for path in files)
    (replay,) = [line for line in output.splitlines() if "medusa replay" in line]
    words = shlex.split(replay)
    assert all((here / "my Shop-2" / path).is_file() for path in (words[2], words[4]))


def test_its_contracts_hold_together_and_its_records_are_those_it_declares(here: Path) -> None:
    assert main(["init", "--name", "shop"]) == 0
    federation = read_federation(here / "contracts", here / ".medusa")
    (network,) = federation.networks
    assert network.name == "shop"
    assert {str(s) for s in federation.streams} == {"requests"}
    rows = list(csv.DictReader(io.StringIO((here / SAMPLE).read_text())))
    assert len(rows) == RECORDS
    assert list(rows[0]) == ["at", "service", "status", "duration_ms"]
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)


@pytest.mark.parametrize("there", ["README.md", SAMPLE, "contracts/networks/shop.py"])
def test_a_file_that_is_there_is_named_and_nothing_is_written(
    here: Path, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / there).parent.mkdir(parents=True, exist_ok=True)
    (here / there).write_text("mine")
    assert main(["init", ".", "--name", "shop"]) == 2
    assert f"{there} is there already" in capsys.readouterr().err
    assert written(here) == {there: "mine"}


def test_a_link_that_leads_nowhere_is_there_too(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "README.md").symlink_to(here / "elsewhere.md")
    assert main(["init", "--name", "shop"]) == 2
    assert "README.md is there already" in capsys.readouterr().err
    assert written(here) == {}


@pytest.mark.parametrize("in_the_way", ["contracts", "contracts/networks", "contracts/samples"])
def test_a_file_where_a_folder_is_to_be_leaves_nothing_half_done(
    here: Path, in_the_way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / in_the_way).parent.mkdir(exist_ok=True)
    (here / in_the_way).write_text("mine")
    assert main(["init", "--name", "shop"]) == 2
    output = capsys.readouterr().err
    assert "in the way" in output
    assert len(output.splitlines()) == 1
    assert written(here) == {in_the_way: "mine"}


def test_a_disk_that_takes_no_more_leaves_nothing_half_done(here: Path) -> None:
    files = {"README.md": "text", "a/b/c.txt": "text", f"a/{'x' * 300}": "too long a name"}
    with pytest.raises(Unavailable, match="cannot be written"):
        write_project(here / "shop", files)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init", "1st"], "say it with --name"),
        (["init", "x", "--name", "../y"], "is not a name"),
        (["init", "x", "--name", "Shop"], "is not a name"),
        (["init", "x", "--name", "a" * 64], "is not a name"),
        (["init", "x", "--name", "x\n: y"], "is not a name"),
        (["init", "x", "--name", ""], "is not a name"),
        (["init", "netmon"], "comes with Medusa"),
    ],
)
def test_an_invalid_name_is_refused(
    here: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert list(here.iterdir()) == []
