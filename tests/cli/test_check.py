"""`medusa check`: a network is checked without a home, a session of Spark or its input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.main import main
from pipelines.language.zone_database import VERSION

NETWORK = """
from medusa_core.network import Aggregate, Filter, Network, Output, Source

network = Network(
    name="small",
    sources=(Source(name="s", columns={"at_us": "bigint", "k": "string"}, time="at_us"),),
    boxes=(
        Filter(name="kept", input="s", cases={"yes": "k <> ''"}),
        Aggregate(
            name="counts", input="kept", size="10s", group_by=("k",), columns={"n": "count(*)"}
        ),
    ),
    outputs=(Output(name="counted", input="counts"),),
)
"""


def test_a_good_network_is_shown_with_the_columns_of_each_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.py").write_text(NETWORK)
    assert main(["check", str(tmp_path / "small.py")]) == 0
    assert (
        capsys.readouterr().out
        == """\
kind       name      columns
---------  --------  ------------------------------------------
Source     s         at_us bigint, k string
Filter     kept.yes  at_us bigint, k string
Aggregate  counts    window_start timestamp, k string, n bigint
Output     counted   window_start timestamp, k string, n bigint

network small: no errors
"""
    )
    assert main(["check", str(tmp_path / "small.py"), "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert parts[-1] == {
        "part": "counted",
        "kind": "Output",
        "columns": {"window_start": "timestamp", "k": "string", "n": "bigint"},
    }


def test_calendar_windows_are_shown_with_the_version_of_the_time_zone_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = NETWORK.replace('size="10s"', 'every="day", zone="Asia/Beirut"')
    (tmp_path / "small.py").write_text(windows)
    assert main(["check", str(tmp_path / "small.py")]) == 0
    line = capsys.readouterr().out.splitlines()[-3]
    assert line == f"aggregate counts: windows of one day in Asia/Beirut, time zone data {VERSION}"
    (tmp_path / "small.py").write_text(windows.replace("Beirut", "Beyrut"))
    assert main(["check", str(tmp_path / "small.py")]) == 2
    assert "did you mean 'Asia/Beirut'" in capsys.readouterr().err


def test_a_network_that_cannot_run_is_refused_with_its_box_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.py").write_text(NETWORK.replace("count(*)", "sum(k)"))
    assert main(["check", str(tmp_path / "small.py")]) == 2
    assert "counts" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("medusa 0.")
