"""A session that does not come up leaves nothing behind, and the next one is not of its making."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.errors import Conflict
from pipelines.base.settings import REPOSITORY
from pipelines.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWICE = """
import os, sys
from pathlib import Path
import psutil
from medusa_core.errors import Unavailable
from pipelines.spark.session import close_session, open_session

folder = Path(sys.argv[1])
os.environ["MEDUSA_SPARK_MASTER"] = "spark://127.0.0.1:1"
try:
    open_session(folder / "first")
except Unavailable as error:
    print(error)
print("left", len(psutil.Process().children(recursive=True)))
os.environ["MEDUSA_SPARK_MASTER"] = ""
session = open_session(folder / "second", cores=1)
print("rows", session.range(3).count(), "in", session.conf.get("spark.medusa.scratch"))
print("network timeout", session.sparkContext.getConf().get("spark.network.timeout"))
close_session(session)
print("left", len(psutil.Process().children(recursive=True)))
"""


ONCE = """
import sys
from pathlib import Path
from medusa_core.errors import Unavailable
from pipelines.spark.session import open_session

try:
    open_session(Path(sys.argv[1]))
except Unavailable as error:
    print(error)
"""


@pytest.mark.long
def test_a_session_that_does_not_start_leaves_no_process_and_the_next_one_starts(
    tmp_path: Path,
) -> None:
    # A cluster that demands a secret which nobody has given: refused by the driver itself, at once.
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.authenticate true\nspark.network.timeout 77s\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", TWICE, str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Spark did not start (")
    assert lines[1] == "left 0"
    assert lines[2] == f"rows 3 in {tmp_path / 'second' / 'spark'}"
    assert lines[3] == "network timeout 77s", "settings of the folder reach the second session too"
    assert lines[4] == "left 0"


@pytest.mark.long
def test_what_java_wrote_is_in_the_sentence_if_it_does_not_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONCE, str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "MEDUSA_DRIVER_MEMORY": "1k"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "initialization of VM, Too small maximum heap): see " in done.stdout, done.stderr


def test_a_process_that_has_a_session_opens_no_second_one_and_keeps_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(Conflict, match="has a Spark session already"):
        open_session(tmp_path)
    assert spark.range(3).count() == 3
