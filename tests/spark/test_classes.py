"""Spark's classes come from an archive where there is one; a wrong one changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from medusa_core.errors import Unavailable
from pipelines.base.settings import REPOSITORY
from pipelines.spark import classes
from pipelines.spark.java import java_home

OPENED = """
import sys
from pathlib import Path
from pipelines.spark.session import close_session, open_session

session = open_session(Path(sys.argv[1]), cores=1, java_options=(sys.argv[2],))
given = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print(session.range(3).count(), sys.argv[2] in list(given))
close_session(session)
"""


def test_a_jvm_is_told_of_its_archive_once_that_is_there(tmp_path: Path) -> None:
    home = java_home(tmp_path)
    archive = classes.archive_for(home, tmp_path)
    assert classes.reading(home, tmp_path) == ()
    archive.touch()
    assert classes.reading(home, tmp_path) == (f"-XX:SharedArchiveFile={archive}",)


def test_a_spark_whose_jars_lie_elsewhere_has_no_archive_and_starts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert classes.reading(java_home(tmp_path), tmp_path) == ()
    with pytest.raises(Unavailable, match="no archive of Spark's classes was made"):
        classes.make_archive(tmp_path / "work", tmp_path / "classes")


def test_an_archive_is_of_one_build_of_java(tmp_path: Path) -> None:
    found = set()
    for version in ("17.0.14", "17.0.15"):
        home = tmp_path / version
        home.mkdir()
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
        found.add(classes.archive_for(str(home), tmp_path))
    assert len(found) == 2


def test_a_java_that_archives_nothing_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(Unavailable, match="no archive of Java's own classes"):
        classes.make_archive(tmp_path / "work", tmp_path / "classes")
    assert not (tmp_path / "classes").exists()


def test_a_folder_that_java_would_read_as_two_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    with pytest.raises(Unavailable, match="takes no archive"):
        classes.make_archive(tmp_path / "work", folder)
    assert not folder.exists()


@pytest.mark.long
def test_the_jvm_of_a_session_has_mapped_its_archive(spark: SparkSession, tmp_path: Path) -> None:
    archive = classes.archive_for(java_home(tmp_path))
    if not archive.exists() or not sys.platform.startswith("linux"):
        pytest.skip("no archive was made here (make classes)")
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    mapped = {one.path for one in jvm.memory_maps()}
    assert str(archive) in mapped


@pytest.mark.long
def test_a_session_starts_with_an_invalid_archive_too(tmp_path: Path) -> None:
    spoilt = tmp_path / 'a "spoilt" one.jsa'
    spoilt.write_bytes(b"no archive at all" * 1000)
    option = f"-XX:SharedArchiveFile={spoilt}"
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path / "work"), option],
        cwd=REPOSITORY, env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "3 True\n"), done.stderr
