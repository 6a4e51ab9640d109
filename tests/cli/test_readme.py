"""The README is true: its query runs, its commands exist, its table is that of the demo."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from medusa_core.grid import parse_duration_us
from medusa_core.names import StreamName
from pipelines.base.settings import REPOSITORY, Settings
from pipelines.cli.main import parser
from pipelines.homes.home import make_home
from pipelines.language.load import load_network
from pipelines.operations.recorded_replay import SOLO
from pipelines.participant.replay import replay
from pipelines.participant.replay_order import ReplayOrder
from pipelines.sources.generated_files import write_generated
from tests.docs.pages import page

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_query_in_the_readme_is_short_and_runs(
    tmp_path: Path, server_folder: Path, spark: Any
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(block.splitlines()) <= 22
    (tmp_path / "turned_away.py").write_text(block)
    network = load_network(str(tmp_path / "turned_away.py"))
    inputs = write_generated(tmp_path, seed=1, records=30_000, files=1, format="csv")
    settings = Settings(catalog_url=None, directory=server_folder.parent, test_data=tmp_path)
    order = ReplayOrder(
        network=network,
        inputs={StreamName("connections"): tuple(inputs)},
        width_us=parse_duration_us(network.bucket),
    )
    with make_home(settings, SOLO, keep=False) as home:
        result = replay(order, home, None, sessions=lambda home: nullcontext(lambda: spark))
    assert result.streams["turned_away_often"]["rows"] > 0


@pytest.mark.long
def test_every_command_in_the_readme_is_understood() -> None:
    lines = README.replace("\\\n", " ").splitlines()
    pattern = r"(?:^|[ (/])medusa ((?:apply|run|read|replay|partner|status)\b[^|&)>\n]*)"
    typed = [found for line in lines if line.startswith(" ") for found in re.findall(pattern, line)]
    typed += [
        found
        for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
        for found in re.findall(pattern, block, re.MULTILINE)
    ]
    calls = [shlex.split(line, comments=True) for line in typed]
    assert len(calls) >= 8
    for words in calls:
        parser().parse_args(words)


def test_readme_and_help_name_every_format_of_recorded_files() -> None:
    _, _, table = page("sources").partition("| format | how it begins |\n|---|---|\n")
    formats = re.findall(r"^\| (\w+(?: lines)?)", table.partition("\n\n")[0], re.MULTILINE)
    named = [name for name in formats if name != "any"]
    assert named == ["CSV", "Zeek", "JSON lines", "Parquet"]
    _, _, sentence = README.partition("your own files with these columns")
    replay = commands_of(parser())["replay"].format_help()
    for name in named:
        assert name in sentence[:80]
        assert name in " ".join(replay.split())


def test_the_page_of_commands_lists_the_commands_of_the_parser() -> None:
    listed = set(re.findall(r"^\| `medusa (\w+)", page("commands"), re.MULTILINE))
    assert listed == set(commands_of(parser()))
    listed = set(re.findall(r"^\| `medusa contract ([\w-]+)", page("commands"), re.MULTILINE))
    assert listed == set(commands_of(commands_of(parser())["contract"]))


def commands_of(of: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The commands of a parser, by name."""
    (commands,) = (a for a in of._actions if isinstance(a, argparse._SubParsersAction))
    return commands.choices


@pytest.mark.long
def test_the_table_in_the_readme_is_what_the_demo_counts(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    (path,) = write_generated(tmp_path, seed=1, records=200_000, files=1, format="csv")
    busiest = duckdb.execute(
        "WITH per_source AS (SELECT ts_us // 60000000 AS w, orig_h, count(*) AS n, "
        "count(DISTINCT resp_p) AS ports FROM read_csv(?) GROUP BY ALL HAVING ports > 10) "
        "SELECT orig_h, count(*), sum(n)::BIGINT, max(ports) FROM per_source GROUP BY orig_h "
        "ORDER BY 3 DESC, 1 LIMIT 10",
        [str(path)],
    ).fetchall()
    shown = re.findall(r"^(\S+\.\S+) +(\d+) +(\d+) +(\d+)$", README, re.MULTILINE)
    assert shown == [tuple(map(str, row)) for row in busiest]
