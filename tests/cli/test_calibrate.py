"""`medusa calibrate`: what a record costs a fragment, as a movement contract has it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from medusa_core.market.term_rules import REFERENCE
from pipelines.cli import main
from pipelines.operations import load_calibration
from tests.cli.test_replay import NETWORK
from tests.conftest import folder_on_memory
from tests.replaying import parquet_files, replay_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
RECORDS = 60_000


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the home of a replay: 60,000 records, counted by tens of seconds."""
    folder = folder_on_memory("medusa-calibrate-")
    files = tmp_path_factory.mktemp("calibrate")
    (files / "small.py").write_text(NETWORK)
    table = pa.table({"at_us": [at * 10_000 for at in range(RECORDS)]})
    (file,) = parquet_files(files / "in", table)
    with pytest.MonkeyPatch.context() as patched:
        replay_in(spark, patched)
        patched.setattr(load_calibration, "_session", lambda: nullcontext(spark))
        patched.setenv("MEDUSA_DIR", str(folder))
        patched.delenv("MEDUSA_CATALOG_URL", raising=False)
        patched.chdir(files)
        assert main.main(["replay", "small.py", "--input", str(file), "--keep", str(folder)]) == 0
        yield folder
    shutil.rmtree(folder)


@pytest.mark.long
def test_a_fragment_is_measured_and_its_reference_fits_a_contract(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main.main(["calibrate", "main", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fragment"] == "small/main"
    assert found["records"] == RECORDS // 2
    assert 0.001 <= found["cpu_us"] < 500
    (reference,) = found["reference"]
    assert REFERENCE.holds(reference)
    assert reference.startswith("small.main/s=")
    assert list(home.glob("solo*")) == list(home.glob("solo")), "nothing is left behind"


@pytest.mark.parametrize(
    ("fragment", "records_min", "sentence"),
    [("other", 1, "solo has no fragment 'other': there is small/main"),
     ("small.main", RECORDS, "small/main has 30,000 records in the home of solo: calibrate it w")],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fragment: str,
    records_min: int,
    sentence: str,
) -> None:
    monkeypatch.setattr(load_calibration, "RECORDS_MIN", records_min)
    capsys.readouterr()
    assert main.main(["calibrate", fragment]) == 2
    assert sentence in capsys.readouterr().err
