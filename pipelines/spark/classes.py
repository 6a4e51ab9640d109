"""An archive of the classes that Spark loads, made once per machine: jobs then start sooner.

A JVM of Spark's loads and verifies some 16,000 classes before its first step; from an archive of
them (class data sharing) it maps them into memory as they were. An archive is for one build of
Java and one set of jars. A JVM that is given another ignores it and loads its classes as usual,
so an archive can make a job start sooner and nothing else. Limit: where the path of the jars has
a space, Java 17 takes few classes from an archive.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from medusa_core.errors import Unavailable
from pipelines.base.files import FileLock, rename
from pipelines.base.settings import SparkSettings
from pipelines.spark.java import java_home, java_release

FOLDER = Path(sys.prefix) / "share" / "medusa" / "spark-classes"
END_S_MAX = 300.0


def archive_for(home: str, folder: Path = FOLDER) -> Path:
    """The archive of a JAVA_HOME's JVMs, whether it is there or not."""
    from pyspark.find_spark_home import _find_spark_home

    jars = Path(_find_spark_home()) / "jars"
    found = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars.iterdir())
    return folder / f"{_short(home)}-{_short(f'{jars} {found} {java_release(home)}')}.jsa"


def reading(home: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """The option by which a JVM reads its archive; none if there is none."""
    try:
        archive = archive_for(home, folder)
    except OSError:  # a Spark without a folder of jars: that it starts or why not is its own to say
        return ()
    return (f"-XX:SharedArchiveFile={archive}",) if archive.is_file() else ()


def make_archive(directory: Path, folder: Path = FOLDER) -> Path:
    """Make the archive, from a session that works in `directory`; one that is there stays.

    Takes about half a minute and 170 MB. Raises Unavailable where none can be made.
    """
    from py4j.protocol import Py4JError

    try:
        home = java_home(directory)
        archive = archive_for(home, folder)
        if not archive.is_file():
            _check_possible(home, folder)
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder, waits=True):
                if not archive.is_file():
                    _make(directory, archive)
    except (OSError, subprocess.TimeoutExpired, Py4JError) as error:
        reason = str(error).splitlines()[0]
        raise Unavailable(
            f"no archive of Spark's classes was made in {folder} ({reason}); jobs start as before, "
            f"only later; {directory / 'logs'} says more"
        ) from error
    return archive


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _check_possible(home: str, folder: Path) -> None:
    """Raises Unavailable for a Java without an archive of its own classes, which others build
    upon (the wheel's has none), and for a folder whose name Java would read as two."""
    if os.pathsep in str(folder):
        raise Unavailable(f"Java takes no archive from {folder}, which has {os.pathsep} in it")
    java = Path(home) / "bin" / "java"
    done = subprocess.run(
        [java, "-Xshare:on", "-version"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=END_S_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Unavailable(
            f"{home} has no archive of Java's own classes to build upon; jobs start as before, "
            "sooner with a Java of this machine's packages"
        )


def _make(directory: Path, archive: Path) -> None:
    """Make it whole or not at all; then those before it, of the same Java's home, go."""
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)  # of one that was killed
    _plan_something(directory, (f"-XX:ArchiveClassesAtExit={unfinished}",))
    if not unfinished.is_file():
        raise OSError("Java has written none")
    rename(unfinished, archive)
    for old in archive.parent.glob(f"{archive.name.split('-')[0]}-*"):
        if old != archive:
            old.unlink(missing_ok=True)


def _plan_something(directory: Path, java_options: tuple[str, ...]) -> None:
    """Plan and run a network that comes with Medusa, over nothing."""
    from pipelines.language.check import check_network, fragments_for
    from pipelines.language.shipped.netmon import network
    from pipelines.spark.session import close_session, open_session
    from pipelines.spark.step import StepEngine

    checked = check_network(network)
    # Neither on a cluster nor with a heap of another size: the archive is for every driver.
    session = open_session(directory, java_options=java_options, settings=SparkSettings())
    try:
        engine = StepEngine(session, directory, checked)
        for fragment in fragments_for(checked):
            engine.warm_up(fragment)
    finally:
        close_session(session, ends_s_max=END_S_MAX)
