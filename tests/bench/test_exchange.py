"""The measurement of a link runs to its end with tiny sizes; no figure is judged here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench.exchange import main
from bench.exchange.command import Promise, lines_of
from bench.exchange.news import Delays
from tests.conftest import folder_on_memory


@pytest.mark.long
def test_the_measurement_of_a_link_runs_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, folder = tmp_path / "samples.json", folder_on_memory("medusa-bench-exchange-")
    tiny = (
        "--links TLS --streams 2 --commits 3 --rate 50 --idle 0.1 --large 1 --large-bytes 100000 "
        f"--small 2 --turns 1 --hostile 8 --hostile-commits 10 --json {document}"
    )
    try:
        main([*tiny.split(), "--folder", str(folder)])
    finally:
        shutil.rmtree(folder)
    (link,) = json.loads(document.read_text())["links"]
    assert len(link["news"]["ms"]) == 3
    assert link["64 MB"][0]["ours"]["files"] == 1
    assert len(link["hostile"][0]["beside"]) == 10
    assert len(link["100 partners"]["ms"]) == 10
    judged = {line.split(":")[1] for line in capsys.readouterr().out.splitlines() if "<=" in line}
    assert len(judged) == 5


def test_percentiles_are_of_the_samples_and_promises_have_two_directions() -> None:
    delays = Delays(ms=list(range(1, 201)))
    assert [delays.part(percent) for percent in (50, 99, 100)] == [100, 198, 200]
    slow = Promise(what="news", measured=21, sign="<=", bound=20)
    fast = Promise(what="files", measured=501, sign=">=", bound=500)
    assert [slow.is_met, fast.is_met] == [False, True]
    assert [line.split()[-1] for line in lines_of([slow, fast])] == ["bound", "MISSED", "met"]
