"""`medusa init --example`: projects whose README is run, command by command."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.cli.main import main
from pipelines.language.check import check_network
from pipelines.language.load import load_network
from pipelines.operations.example_samples import EXAMPLES
from pipelines.operations.project_files import project_files
from tests.conftest import folder_on_memory
from tests.docs.pages import blocks_of
from tests.sweeps import each_of_part
from tests.terminals import install_medusa, terminal

LATE = {"shop": "orders", "sensors": "readings", "network": "connections"}
SECONDS_MAX = 600


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on memory with `medusa` in `bin`."""
    folder = folder_on_memory("medusa-example-")
    install_medusa(folder / "bin")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_network_has_the_same_streams_in_python_and_in_sql(
    tmp_path: Path, example: str
) -> None:
    for path, text in project_files("mine", example).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert not any("PROJECT_NAME" in text for text in project_files("mine", example).values())
    in_python, in_sql = (
        check_network(load_network(str(tmp_path / f"contracts/networks/mine.{ending}")))
        for ending in ("py", "sql")
    )
    assert in_python.network.sources == in_sql.network.sources
    assert in_python.network.bucket == in_sql.network.bucket
    assert [o.name for o in in_python.network.outputs] == [o.name for o in in_sql.network.outputs]
    for output in in_python.network.outputs:
        assert in_python.columns_of_output(output.name) == in_sql.columns_of_output(output.name)


def test_the_samples_of_an_example_are_in_order_of_their_time() -> None:
    for example in EXAMPLES:
        for path, text in project_files("mine", example).items():
            if path.startswith("contracts/samples/"):
                times = [line.partition(",")[0] for line in text.splitlines()[1:]]
                assert times
                assert times == sorted(times), path


def test_an_example_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["init", str(tmp_path / "x"), "--example", "shops"])
    assert ended.value.code == 2
    assert "shop" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.long  # each starts several processes with a JVM of its own
@pytest.mark.parametrize("example", each_of_part(EXAMPLES))
def test_every_command_of_the_readme_ends_well_and_shows_what_it_says(
    folder: Path, example: str
) -> None:
    assert main(["init", str(folder / "mine"), "--example", example]) == 0
    text = (folder / "mine" / "README.md").read_text("utf-8")
    commands = "\n".join(block.commands for block in blocks_of(text) if block.is_run)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEDUSA_")}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    environment["PYTHONPATH"] = str(REPOSITORY)
    script = f"set -e\n{commands}"
    with terminal(script, folder / "mine", environment, is_read=True) as bash:
        printed, _ = bash.communicate(timeout=SECONDS_MAX)
    assert bash.returncode == 0, printed
    for name in ("python", "sql"):
        results = sorted((folder / "mine" / "out" / name).glob("*.csv"))
        assert len(results) == 2
        assert all(len(file.read_text().splitlines()) > 3 for file in results)
    assert "equal an independent recomputation" in printed
    assert "\n3 rows of " in printed
    (line,) = (folder / "mine" / "quarantined.json").read_text().splitlines()
    assert json.loads(line)["reason"].startswith("is late:")
    assert LATE[example] in json.loads(line)["origin"]
    if example == "shop":  # whose late order is admitted
        food = [row.split()[3:] for row in printed.splitlines() if "T08:00:00Z  food" in row]
        assert food == [["63", "1250.70"], ["64", "1273.70"]]
