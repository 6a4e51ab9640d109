"""Set-up on machines where something is missing: it works, or one sentence says what to do.

Every test runs the real `bootstrap.py` with a real pip in a copy of its own, for a project with one
tiny dependency that lies in a folder: no network is used. Restricted machines are real interpreters
whose library lacks a part. A whole set-up takes pip seconds: those are run by `make test-long`.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.component_processes import start
from pipelines.platform.airflow_components.process_sessions import Started
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
BASE_PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "small"
version = "1"
"""

# The least that pip asks of a project that is installed in place.
BACKEND = """
import pathlib, zipfile
def get_requires_for_build_editable(config_settings=None):
    return []
def build_editable(directory, config_settings=None, metadata_directory=None):
    name, info = "small-1-py3-none-any.whl", "small-1.dist-info/"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w") as wheel:
        wheel.writestr("small.pth", str(pathlib.Path.cwd()))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: small\\nVersion: 1\\n")
        tag = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(info + "WHEEL", tag)
        wheel.writestr(info + "RECORD", "")
    return name
"""


def write_wheel(folder: Path, name: str, version: str, *more: str) -> str:
    """Write a wheel with one module and more files; returns its line for a lock."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info/"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        info + "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        info + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **dict.fromkeys(more, ""),
    }
    record = ""
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{file},sha256={digest.decode()},{len(text)}\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
        wheel.writestr(info + "RECORD", record + f"{info}RECORD,,\n")
    digest_of_file = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name}=={version} \\\n    --hash=sha256:{digest_of_file}\n    # via small\n"


class Project:
    """A copy of the project's set-up in a folder of its own, on a machine without a network."""

    def __init__(self, base: Path, python: Path = BASE_PYTHON) -> None:
        self.python = python
        self.root = base / "a project"
        self.packages = base / "packages"
        self.home = base / "home"
        for folder in (self.root, self.packages, self.home):
            folder.mkdir()
        shutil.copy(REPOSITORY / "bootstrap.py", self.root)
        (self.root / "pyproject.toml").write_text(PROJECT)
        (self.root / "backend.py").write_text(BACKEND)
        self.lock(write_wheel(self.packages, "tiny", "1.0"))
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": self.packages.as_uri(),
            "PIP_CONFIG_FILE": os.devnull,
        }

    def lock(self, text: str) -> None:
        (self.root / "requirements.lock").write_text(text)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.python), str(self.root / "bootstrap.py"), *arguments]

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def succeed(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        done = self.run(*arguments, **env)
        assert done.returncode == 0, done.stderr + self.log()
        return done

    def log(self) -> str:
        log = self.root / ".medusa/logs/setup.log"
        return log.read_text() if log.exists() else ""

    def installed_version(self) -> str:
        code = "import tiny, backend; print(tiny.VERSION)"
        python = self.root / ".venv/bin/python"
        return subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=True, cwd="/"
        ).stdout.strip()


@pytest.fixture(scope="module")
def quick_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without ensurepip, if there can be one: its environments are made in no time.

    The pip that fills them is then the one outside.
    """
    try:
        return a_python_without(tmp_path_factory.mktemp("quick") / "python", "ensurepip")
    except pytest.skip.Exception:
        return BASE_PYTHON


@pytest.fixture
def project(tmp_path: Path, quick_python: Path) -> Project:
    return Project(tmp_path, quick_python)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project that is set up; tests that use it leave it so."""
    project = Project(tmp_path_factory.mktemp("ready"))
    project.succeed()
    yield project
    assert project.installed_version() == "1.0"


def the_pip_of_this_machine() -> Path:
    code = "import pip; print(pip.__path__[0])"
    for python in (BASE_PYTHON, sys.executable):
        output = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if output.returncode == 0:
            return Path(output.stdout.strip())
    pytest.skip("this machine has no pip")


def a_python_without(base: Path, *missing: str) -> Path:
    """Make an interpreter whose library lacks some packages, or skip where that is not possible."""
    library = base / "lib" / VERSION
    library.mkdir(parents=True)
    for entry in Path(os.__file__).parent.iterdir():
        if entry.name not in (*missing, "site-packages", "EXTERNALLY-MANAGED"):
            (library / entry.name).symlink_to(entry)
    (library / "site-packages").mkdir()
    if "pip" not in missing:
        (library / "site-packages/pip").symlink_to(the_pip_of_this_machine())
    python = base / "bin" / VERSION
    python.parent.mkdir()
    shutil.copy(BASE_PYTHON, python)
    probe = [python, "-c", "import sys; print(sys.prefix)"]
    output = subprocess.run(probe, capture_output=True, text=True, check=False, env={})
    if output.stdout.strip() != str(base):
        pytest.skip("this Python cannot be copied: " + output.stdout + output.stderr)
    return python


# ---------------------------------------------------------------- the normal way


@pytest.mark.long
def test_a_fresh_folder_is_set_up_and_the_second_run_changes_nothing(ready: Project) -> None:
    assert ready.installed_version() == "1.0"
    stamp = ready.root / ".venv/medusa.json"
    written = stamp.stat().st_mtime_ns
    done = ready.succeed()
    assert done.stdout == "Set up already: .venv is what requirements.lock says.\n"
    assert stamp.stat().st_mtime_ns == written


@pytest.mark.long
def test_it_is_quick_when_nothing_changed_because_it_starts_no_other_program(
    ready: Project,
) -> None:
    # Speed itself is not asserted: what would be slow cannot even be found.
    done = ready.succeed(PATH="/nowhere", PIP_FIND_LINKS="/nowhere")
    assert done.stderr == ""


@pytest.mark.long
def test_nothing_is_written_where_it_is_set_up_already(ready: Project) -> None:
    before = sorted(path.name for path in ready.root.iterdir())
    ready.succeed(HOME="/nowhere/to/be/found")
    assert sorted(path.name for path in ready.root.iterdir()) == before


@pytest.mark.long
def test_make_calls_it_in_a_folder_with_a_space(ready: Project) -> None:
    shutil.copy(REPOSITORY / "Makefile", ready.root)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={BASE_PYTHON}"],
        cwd=ready.root,
        env=ready.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Set up already")


@pytest.mark.long
def test_a_changed_lock_is_followed(project: Project) -> None:
    project.succeed()
    project.lock(write_wheel(project.packages, "tiny", "2.0"))
    project.succeed()
    assert project.installed_version() == "2.0"


@pytest.mark.long
def test_the_archives_that_spark_would_read_before_its_packages_are_removed(
    project: Project,
) -> None:
    lib = "pyspark/python/lib"
    files = [f"{lib}/{name}" for name in ("pyspark.zip", "py4j-0.1-src.zip", "another.zip")]
    project.lock(write_wheel(project.packages, "tiny", "1.0", *files))
    project.succeed()
    (site,) = (project.root / ".venv").glob("lib/python*/site-packages")
    assert [path.name for path in (site / lib).iterdir()] == ["another.zip"]


@pytest.mark.long
def test_a_moved_folder_is_set_up_again(project: Project) -> None:
    project.python = BASE_PYTHON
    project.succeed()
    project.root = project.root.rename(project.root.with_name("moved"))
    project.succeed()
    assert project.installed_version() == "1.0"
    assert str(project.root) in (project.root / ".venv/bin/pip").read_text()


@pytest.mark.long
def test_two_at_once_wait_for_each_other(project: Project) -> None:
    pipe = subprocess.PIPE
    both = [
        subprocess.Popen(project.command(), env=project.env, stdout=pipe, stderr=pipe, text=True)
        for _ in range(2)
    ]
    output = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], output
    assert sum("installing Medusa itself" in out for out, _ in output) == 1
    assert project.installed_version() == "1.0"


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_is_continued_by_the_next(project: Project, how: signal.Signals) -> None:
    process = subprocess.Popen(
        project.command(),
        env=project.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: " install " in project.log() or process.poll() is not None, "pip is at work", 240)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if how != signal.SIGKILL else -9)
    assert err == "" if how == signal.SIGKILL else "goes on where this one stopped" in err
    project.succeed()
    assert project.installed_version() == "1.0"


@pytest.mark.long
@pytest.mark.parametrize("record", [None, "tiny.py,,\ntiny-1.0.dist-info/RECORD,,\n"],
                         ids=["without a record", "with that of its archive"])  # fmt: skip
def test_a_package_that_was_half_installed_is_installed_again(
    project: Project, record: str | None
) -> None:
    project.succeed()
    (site,) = (project.root / ".venv").glob("lib/python*/site-packages")
    (site / "tiny-1.0.dist-info/RECORD").unlink()
    if record is not None:
        (site / "tiny-1.0.dist-info/RECORD").write_text(record)
    (site / "tiny.py").write_text("VERSION = 'half of it'\n")
    stamp = project.root / ".venv/medusa.json"
    stamp.write_text(json.dumps({"made_for": json.loads(stamp.read_text())["made_for"]}))
    project.succeed()
    assert project.installed_version() == "1.0"


# ---------------------------------------------------------------- restricted machines


@pytest.mark.long
def test_without_ensurepip_the_pip_outside_installs_into_the_environment(
    project: Project, tmp_path: Path
) -> None:
    python = a_python_without(tmp_path / "debian", "ensurepip")
    # Such a Python is usually also closed to installations of the user (PEP 668).
    (tmp_path / "debian/lib" / VERSION / "EXTERNALLY-MANAGED").write_text(
        "[externally-managed]\nError=use the package manager\n"
    )
    project.python = python
    project.succeed()
    assert project.installed_version() == "1.0"
    assert not list((project.root / ".venv").glob("lib/*/site-packages/pip"))


@pytest.mark.long
def test_without_pip_ensurepip_is_enough(project: Project, tmp_path: Path) -> None:
    project.python = a_python_without(tmp_path / "bare", "pip")
    project.succeed(PATH="/nowhere")
    assert project.installed_version() == "1.0"


@pytest.mark.parametrize("missing", [("pip", "ensurepip"), ("pip", "ensurepip", "venv")])
def test_without_both_one_sentence_says_what_to_install(
    project: Project, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    project.python = a_python_without(tmp_path / "bare", *missing)
    done = project.run(PATH="/nowhere")
    assert done.returncode == 4
    assert "apt install python3-venv" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_settings_of_the_user_that_lead_elsewhere_do_not_matter(
    project: Project, tmp_path: Path
) -> None:
    project.python = BASE_PYTHON
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/tiny.py").write_text("raise SystemExit('not this one')")
    project.succeed(
        PIP_USER="1",
        PIP_TARGET=str(tmp_path / "elsewhere"),
        PYTHONPATH=str(tmp_path / "elsewhere"),
        PIP_REQUIRE_VIRTUALENV="1",
    )
    assert project.installed_version() == "1.0"


@pytest.mark.long
def test_a_home_that_is_no_folder_does_not_matter(project: Project) -> None:
    project.python = BASE_PYTHON
    project.succeed(HOME="/dev/null")
    assert project.installed_version() == "1.0"


def test_a_folder_that_is_not_writable_is_one_sentence(project: Project) -> None:
    project.python = BASE_PYTHON
    command = project.command()
    folder = Path(tempfile.mkdtemp(prefix="medusa-closed-"))
    shutil.copytree(project.root, folder / "project")
    command[1] = str(folder / "project/bootstrap.py")
    options: dict[str, Any] = {"capture_output": True, "text": True, "check": False}
    if os.geteuid() == 0:  # root may write anywhere, so be somebody else
        options |= {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        folder.chmod(0o755)
        (folder / "project").chmod(0o555)
        if subprocess.run([BASE_PYTHON, "-c", ""], **options).returncode:
            pytest.skip("nobody cannot run this Python")
        done = subprocess.run(command, env=project.env, **options)
    except PermissionError:
        pytest.skip("nobody cannot run this Python")
    finally:
        (folder / "project").chmod(0o755)
        shutil.rmtree(folder)
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert "not writable" in done.stderr


# ---------------------------------------------------------------- failures, in words


@pytest.mark.long
def test_without_a_network_one_sentence_says_so_and_names_the_log(project: Project) -> None:
    # Port 9 of this machine stands for an index that cannot be reached.
    index = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9/"}
    done = project.run(**index, PIP_RETRIES="1")
    assert done.returncode == 4
    assert done.stderr.startswith("The package index cannot be reached; check the network")
    assert ".medusa/logs/setup.log" in done.stderr
    assert done.stderr.count("\n") == 1
    project.succeed()


@pytest.mark.long
def test_a_package_with_another_content_is_refused(project: Project) -> None:
    project.lock(f"tiny==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    done = project.run()
    assert done.returncode == 2
    assert "differs from what requirements.lock promises" in done.stderr


@pytest.mark.long
def test_a_package_that_does_not_exist_is_one_sentence(project: Project) -> None:
    project.lock(f"absent==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    done = project.run()
    assert done.returncode == 4
    assert done.stderr.startswith("absent==1.0 was not found: ")
    assert done.stderr.count("\n") == 1


def test_a_missing_lock_is_one_sentence(project: Project) -> None:
    (project.root / "requirements.lock").unlink()
    done = project.run()
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "requirements.lock" in done.stderr


def test_an_unknown_action_is_refused(project: Project) -> None:
    assert project.run("install").returncode == 2


def test_the_file_can_be_read_by_an_old_python() -> None:
    ast.parse((REPOSITORY / "bootstrap.py").read_text(), feature_version=(3, 7))
    # What runs before the version check must not need a newer Python either.
    head = (REPOSITORY / "bootstrap.py").read_text().split("if os.name")[0]
    assert "from __future__" not in head
    assert "list[" not in head
    assert " | " not in head


# ---------------------------------------------------------------- clean


@pytest.mark.long
def test_clean_removes_what_was_made_and_nothing_else(project: Project, tmp_path: Path) -> None:
    before = sorted(path.name for path in project.root.iterdir())
    project.succeed()
    outside = tmp_path / "medusa-server-1" / "cluster"
    outside.mkdir(parents=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    catalog = project.root / ".medusa/catalog"
    catalog.mkdir()
    (catalog / "cluster").symlink_to(outside)
    (project.root / ".medusa/mine").symlink_to(mine)
    done = project.succeed("clean")
    assert done.stdout.startswith("Removed ")
    assert sorted(path.name for path in project.root.iterdir()) == before
    assert not outside.parent.exists()
    assert mine.exists()
    assert project.succeed("clean").stdout == "Nothing to remove.\n"


def test_clean_stops_a_server_whose_owner_was_lost(project: Project) -> None:
    data = project.root / ".medusa/catalog/cluster/data"
    data.mkdir(parents=True)
    pid_file = data / "postmaster.pid"
    # Stands for a server: its command line names the folder, and SIGINT ends it tidily.
    code = (
        "import os, pathlib, signal, sys\n"
        "def end(*_):\n    pathlib.Path(sys.argv[2]).unlink(); os._exit(0)\n"
        "signal.signal(signal.SIGINT, end); print('ready', flush=True); signal.pause()"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code, "postgres", str(pid_file)], stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    server.stdout.readline()
    pid_file.write_text(f"{server.pid}\n{data}\n")
    project.succeed("clean")
    assert server.wait(timeout=60) == 0
    server.stdout.close()
    assert not (project.root / ".medusa").exists()


@pytest.mark.long
def test_clean_ends_what_up_has_started(project: Project) -> None:
    medusa = project.root / ".venv/bin/medusa"
    medusa.parent.mkdir(parents=True)
    medusa.write_text(
        f'#!/bin/sh\ncd "{REPOSITORY}" && exec "{sys.executable}" -m pipelines.cli.main "$@"\n'
    )
    medusa.chmod(0o755)
    folder = PlatformFolder(project.root / ".medusa")
    folder.make()
    started: list[Started] = []
    child = start(
        "a component",
        # For longer than cleaning may take: that it has ended is cleaning's doing.
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"],
        environment=dict(os.environ),
        folder=folder.root,
        log=folder.supervisor_log,
        write_down=started.append,
    )
    folder.write_started(started)
    project.succeed("clean")
    assert child.wait(timeout=60) == -signal.SIGTERM
    assert not (project.root / ".medusa").exists()
