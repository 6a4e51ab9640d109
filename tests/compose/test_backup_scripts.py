"""docker/backup.sh and docker/restore.sh: what they copy and restore, and what they refuse.

A stand-in for `docker`, whose volumes are folders, makes every call fail that a test names. One
test, marked `compose`, uses a real engine and a project of one small container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from tests.compose.engine import Engine, lacking, own_engine, run
from tests.compose.test_compose_run import KEPT

DOCKER = r"""#!/bin/sh
case "$*" in $FAILS) echo "docker: an error" >&2; exit 1 ;; esac
case "$*" in
    "compose config") cat "$STATE/config" ;;
    "compose ps --all --quiet") ;;
    "volume ls --quiet --filter label=com.docker.compose.project=tiny") ls "$STATE/volumes" ;;
    "ps --quiet --filter "*) cat "$STATE/${5:-$4}" 2>/dev/null || true ;;
    "run "*)
        while [ "$1" != --volume ]; do shift; done
        at=$STATE/volumes/${2%%:*}
        [ -d "$at" ] || exit 1
        shift 3
        case $1 in
            tar) tar -C "$at" --numeric-owner -c . ;;
            sh) sh -c "$(echo "$3" | sed "s|/to|$at|g")" ;;
        esac ;;
    *) echo "docker: $* is not known here" >&2; exit 1 ;;
esac
"""
VOLUMES = ("tiny_files", "tiny_keys", "tiny_postgres")
DIFFER = "the volumes of the project tiny are not those of the copy: the project has "
TINY = ("/usr/bin/docker-compose", "-p", "tiny")
COMPOSED = """
services:
  store:
    image: medusa
    command: ["sleep", "1000"]
    init: true
    volumes: ["files:/files", "keys:/keys"]
    network_mode: none
volumes: {files: {}, keys: {}}
"""


@dataclass(frozen=True)
class Project:
    """A project whose engine is the stand-in; `fails` is the pattern of the calls that fail."""

    folder: Path

    def script(self, name: str, folder: str = "copy", fails: str = "") -> tuple[int, str]:
        """The exit code of a script of `docker/`, and its last line of errors."""
        done = subprocess.run(
            ["sh", REPOSITORY / "docker" / name, folder],
            cwd=self.folder,
            env={
                "PATH": f"{self.folder}:{os.environ['PATH']}",
                "STATE": str(self.folder),
                "FAILS": fails,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, (done.stderr.splitlines() or [""])[-1]

    def write(self, text: str) -> None:
        """Make this the content of the file of each volume."""
        for name in VOLUMES:
            (self.folder / "volumes" / name / "file").write_text(text)

    def contents(self) -> set[str]:
        return {file.read_text() for file in self.folder.glob("volumes/*/*")}

    def copies(self) -> list[str]:
        return sorted(one.name for one in self.folder.glob("copy*"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name in VOLUMES:
        (tmp_path / "volumes" / name).mkdir(parents=True)
    (tmp_path / "config").write_text("name: tiny\nservices: {}\n")
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    made = Project(tmp_path)
    made.write("before")
    return made


@pytest.fixture
def copied(project: Project) -> Project:
    """A project with a copy, that was written to since."""
    assert project.script("backup.sh") == (0, "")
    project.write("after")
    (project.folder / "volumes" / VOLUMES[0] / "more").write_text("after")
    return project


def test_a_project_without_containers_is_copied_and_restored_by_the_labels_of_its_volumes(
    copied: Project,
) -> None:
    assert copied.script("restore.sh") == (0, "")
    assert copied.contents() == {"before"}
    assert copied.copies() == ["copy"]


@pytest.mark.parametrize("script", ["backup.sh", "restore.sh"])
@pytest.mark.parametrize("fails", ["compose config", "compose ps*", "volume ls*", "ps *label*",
                                   "ps *volume=*"])  # fmt: skip
def test_a_question_to_the_engine_that_fails_ends_a_script_before_it_changes_anything(
    copied: Project, script: str, fails: str
) -> None:
    folder = {"backup.sh": "copy-2", "restore.sh": "copy"}[script]
    code, error = copied.script(script, folder, fails)
    assert code != 0
    assert error == "docker: an error"
    assert copied.contents() == {"after"}
    assert copied.copies() == ["copy"]


@pytest.mark.parametrize("script", ["backup.sh", "restore.sh"])
def test_a_project_without_volumes_is_refused(copied: Project, script: str) -> None:
    shutil.rmtree(copied.folder / "volumes")
    (copied.folder / "volumes").mkdir()
    assert copied.script(script, {"backup.sh": "copy-2"}.get(script, "copy")) == (
        4,
        "the project tiny has no volumes: set COMPOSE_PROJECT_NAME to its name",
    )
    assert copied.copies() == ["copy"]


@pytest.mark.parametrize("script", ["backup.sh", "restore.sh"])
def test_volumes_that_a_running_container_uses_are_refused(copied: Project, script: str) -> None:
    folder = {"backup.sh": "copy-2"}.get(script, "copy")
    (copied.folder / "volume=tiny_keys").write_text("c0ffee\n")
    assert copied.script(script, folder) == (
        4,
        "a container uses the volume tiny_keys: stop it first (docker stop c0ffee)",
    )
    (copied.folder / "label=com.docker.compose.project=tiny").write_text("c0ffee\n")
    stop = "a service runs: stop all of them first (docker compose stop)"
    assert copied.script(script, folder) == (4, stop)
    assert copied.contents() == {"after"}


def test_the_name_of_a_project_that_compose_does_not_print_is_that_of_the_folder(
    copied: Project,
) -> None:
    (copied.folder / "config").write_text("services: {}\n")
    code, error = copied.script("restore.sh")
    assert code == 1
    assert copied.folder.name.lower() in error, "the stand-in knows the volumes of tiny alone"


def test_a_backup_that_fails_at_its_last_volume_leaves_no_folder(project: Project) -> None:
    assert project.script("backup.sh", fails="run*tiny_postgres:*") == (
        4,
        "the volume tiny_postgres could not be copied: there is no backup",
    )
    assert project.copies() == []


def test_a_folder_that_exists_is_not_overwritten_by_a_backup(copied: Project) -> None:
    code, error = copied.script("backup.sh")
    assert (code, error) == (4, "copy exists: name a folder that does not exist yet")
    (copied.folder / "copy-2.part").mkdir()
    code, error = copied.script("backup.sh", "copy-2")
    assert code == 4
    assert error == "copy-2.part exists, of a backup that was interrupted: remove it first"
    assert copied.copies() == ["copy", "copy-2.part"]


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("rm copy/tiny_keys.tar",
         f"{DIFFER}tiny_files tiny_keys tiny_postgres, the copy has tiny_files tiny_postgres"),
        ("mkdir volumes/tiny_new",
         f"{DIFFER}tiny_files tiny_keys tiny_new tiny_postgres, the copy has {' '.join(VOLUMES)}"),
        ("truncate -s 600 copy/tiny_postgres.tar",
         "copy is damaged, its files are not those of its sums: nothing was restored"),
        ("rm copy/sums",
         "copy lacks the file sums, which ends a backup: nothing was restored"),
        ("truncate -s 0 copy/tiny_postgres.tar",
         "copy is damaged, its files are not those of its sums: nothing was restored"),
        ("rm -r copy", "copy is not a folder: name the folder of a backup"),
    ],
)  # fmt: skip
def test_a_copy_that_is_not_complete_is_refused_before_anything_is_removed(
    copied: Project, damage: str, error: str
) -> None:
    subprocess.run(["sh", "-c", damage], cwd=copied.folder, check=True)
    assert copied.script("restore.sh") == (4, error)
    assert copied.contents() == {"after"}


def test_the_folder_of_an_interrupted_backup_is_not_restored(copied: Project) -> None:
    (copied.folder / "copy").rename(copied.folder / "copy.part")
    assert copied.script("restore.sh", "copy.part") == (
        4,
        "copy.part is of a backup that was interrupted: name a complete one",
    )
    assert copied.contents() == {"after"}


def test_a_restore_that_fails_in_its_middle_says_so(copied: Project) -> None:
    assert copied.script("restore.sh", fails="run*tiny_keys:*") == (
        4,
        "the volume tiny_keys could not be restored: start no service before a restore succeeds",
    )
    assert copied.script("restore.sh") == (0, "")
    assert copied.contents() == {"before"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A real engine, whose image `medusa` has the programs that the scripts need."""
    if why := lacking():
        pytest.skip(why)
    (tmp_path / "docker-compose.yml").write_text(COMPOSED)
    with own_engine(KEPT / "engine") as engine:
        with subprocess.Popen(_packed_programs(), stdout=subprocess.PIPE) as packed:
            engine.docker("import", "-", "medusa", stdin=packed.stdout)
        try:
            yield engine
        finally:
            with suppress(AssertionError):
                run([*TINY, "down", "--volumes"], engine.environment, cwd=tmp_path)


def _packed_programs() -> list[str]:
    """Shell, tar, find and sleep, with their libraries, as a tar of a root folder."""
    programs = [str(shutil.which(name)) for name in ("sh", "tar", "find", "sleep")]
    linked = run(["ldd", *programs], os.environ)
    libraries = {word for word in linked.split() if word.startswith("/") and word[-1] != ":"}
    return ["tar", "-C", "/", "--dereference", "-c", *(f".{one}" for one in
            sorted({*programs, *libraries}))]  # fmt: skip


@pytest.mark.compose
def test_a_real_engine_copies_and_restores_the_volumes_of_a_project_that_is_down(
    engine: Engine, tmp_path: Path
) -> None:
    environment = {**engine.environment, "COMPOSE": " ".join(TINY), "COMPOSE_PROJECT_NAME": "tiny"}

    def compose(*words: str) -> str:
        return run([*TINY, *words], environment, cwd=tmp_path)

    def script(name: str) -> str:
        return run(["sh", str(REPOSITORY / "docker" / name), "copy"], environment, cwd=tmp_path)

    def inside(command: str) -> str:
        return compose("exec", "-T", "store", "sh", "-c", command)

    compose("up", "--detach")
    inside("echo before > /files/one; echo key > /keys/key")
    with pytest.raises(AssertionError, match="a service runs: stop all of them first"):
        script("backup.sh")
    compose("down", "--timeout", "5")
    assert script("backup.sh").count(" bytes\n") == 2
    compose("up", "--detach")
    inside("echo after > /files/one; echo after > /files/two; echo after > /keys/key")
    with pytest.raises(AssertionError, match="a service runs: stop all of them first"):
        script("restore.sh")
    compose("stop", "--timeout", "5")
    assert script("restore.sh").count(": restored\n") == 2
    compose("up", "--detach")
    assert inside("find /files /keys -type f").split() == ["/files/one", "/keys/key"]
    read = 'while read line; do echo "$line"; done'
    assert inside(f"{read} < /files/one; {read} < /keys/key").split() == ["before", "key"]
