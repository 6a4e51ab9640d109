"""An archive of the classes that Spark loads, made once per machine: jobs then start sooner.

A JVM of Spark's loads and verifies some 16,000 classes before its first step; from an archive of
them (class data sharing) it maps them into memory as they were. An archive is for one build of Java
and one set of jars. A JVM that is given another leaves it alone, says so in `jvm.log` and loads its
classes as ever, so an archive can make a job start sooner and nothing else.

    python -m pipelines.spark.classes
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from medusa_core.errors import MedusaError, Unavailable
from pipelines.spark.java import java_home, java_release

FOLDER = Path(sys.prefix) / "share" / "medusa" / "spark-classes"
END_S_MAX = 300.0


def archive_for(home: str, folder: Path = FOLDER) -> Path:
    """The archive of a JAVA_HOME's JVMs, whether it is there or not."""
    import pyspark

    of = f"{pyspark.__version__}\n{Path(pyspark.__file__).parent}\n{java_release(home)}"
    return folder / f"{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"


def reading(home: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """The option by which a JVM reads its archive; none if there is none."""
    archive = archive_for(home, folder)
    # A JVM takes several archives in one option, parted like the folders of a path.
    has_one = archive.is_file() and os.pathsep not in str(archive)
    return (f"-XX:SharedArchiveFile={archive}",) if has_one else ()


def make_archive(directory: Path, folder: Path = FOLDER) -> Path:
    """Make the archive, from a session that works in `directory`; one that is there stays.

    Takes about half a minute and 170 MB. Raises Unavailable where none can be made.
    """
    home = java_home(directory)
    archive = archive_for(home, folder)
    if archive.is_file():
        return archive
    _check_java(home)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            made = Path(unfinished) / archive.name
            _plan_something(directory, (f"-XX:ArchiveClassesAtExit={made}",))
            os.replace(made, archive)
    except OSError as error:
        raise Unavailable(
            f"no archive of Spark's classes was made in {folder} ({error.strerror or error}); "
            "jobs start as before, only later"
        ) from error
    return archive


def _check_java(home: str) -> None:
    """Raises Unavailable for a Java without an archive of its own classes, which others build
    upon: the wheel's has none."""
    java = Path(home) / "bin" / "java"
    done = subprocess.run(
        [java, "-Xshare:on", "-version"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        raise Unavailable(
            f"{home} has no archive of Java's own classes to build upon; jobs start as before, "
            "sooner with a Java of this machine's packages"
        )


def _plan_something(directory: Path, java_options: tuple[str, ...]) -> None:
    """Plan and run a network that comes with Medusa, over nothing."""
    from pipelines.deploying import fragments_for
    from pipelines.networks.check import check_network
    from pipelines.networks.netmon import network
    from pipelines.spark.session import close_session, open_session
    from pipelines.spark.step import StepEngine

    checked = check_network(network)
    session = open_session(directory, java_options=java_options)
    try:
        engine = StepEngine(session, directory, checked)
        for fragment in fragments_for(checked):
            engine.warm_up(fragment)
    finally:
        close_session(session, ends_s_max=END_S_MAX)


def main() -> int:
    """Make it and say where; where none can be made, say why."""
    with tempfile.TemporaryDirectory(prefix="medusa-classes-") as directory:
        try:
            print(f"Spark's classes: {make_archive(Path(directory))}")
        except MedusaError as error:
            print(error, file=sys.stderr)
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
