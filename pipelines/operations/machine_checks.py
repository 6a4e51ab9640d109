"""Check that a machine has what Medusa needs, and say what to do if it does not.

Each check tries one thing, for seconds at most, and gives one finding. Nothing is installed or
changed. An embedded server is started only where homes are in it, as any command about them would,
and is stopped with the check. Recorded test data is optional: without it tests are skipped.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.names import Participant
from pipelines.base.settings import PARTICIPANT, Settings
from pipelines.operations.findings import Finding, State, fail, ok

PYTHONS = ((3, 11), (3, 13))
DISK_BYTES_MIN = 1_000_000_000
ANSWER_S_MAX = 30
METRICS_S_MAX = 2.0
LOOPBACK = "127.0.0.1"


class _Missing(Exception):
    """A check failed: what was found, and what to do about it."""

    def __init__(self, found: str, to_do: str) -> None:
        super().__init__(found)
        self.found, self.to_do = found, to_do


def check_machine(settings: Settings) -> Iterator[Finding]:
    """Every check, in the order in which one needs the other."""
    checks: dict[str, Callable[[Settings], str]] = {
        "python": _python,
        "folder": _folder,
        "disk": _disk,
        "memory": _memory,
        "java": _java,
        "ports": _ports,
        **({} if settings.metrics_port is None else {"metrics port": _metrics_port}),
        "postgres": _postgres,
    }
    has_postgres = False
    for name, check in checks.items():
        finding = _tried(name, check, settings)
        has_postgres = name == "postgres" and finding.state is State.OK
        yield finding
    if has_postgres:
        from pipelines.operations.home_checks import home_findings

        yield from home_findings(settings)
    yield _tried("test data", _test_data, settings)


def _tried(name: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return ok(name, check(settings))
    except _Missing as missing:
        return fail(name, missing.found, missing.to_do)
    except MedusaError as error:
        # Errors of the product already say what to do.
        return fail(name, str(error))


def _python(settings: Settings) -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise _Missing(f"Python {version}", "run with Python 3.11, 3.12 or 3.13")
    return f"Python {version} ({sys.prefix})"


def _folder(settings: Settings) -> str:
    place = _existing(settings.directory)
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"medusa")
    except OSError as error:
        raise _Missing(
            f"{place} cannot be written ({error.strerror})", "set MEDUSA_DIR to a folder of yours"
        ) from None
    state = "" if place == settings.directory else " (not made yet)"
    return f"MEDUSA_DIR is {settings.directory}, which can be written{state}"


def _disk(settings: Settings) -> str:
    free = shutil.disk_usage(_existing(settings.directory)).free
    found = f"{free / 1e9:.1f} GB free for MEDUSA_DIR"
    if free < DISK_BYTES_MIN:
        raise _Missing(found, f"free {DISK_BYTES_MIN / 1e9:.0f} GB, or set MEDUSA_DIR elsewhere")
    return found


def _memory(settings: Settings) -> str:
    from pipelines.spark.java import MEMORY_BYTES_MIN, check_memory

    check_memory()
    return f"at least the {MEMORY_BYTES_MIN / 2**30:.1f} GiB that Spark needs"


def _java(settings: Settings) -> str:
    from pipelines.spark.java import java_home

    with tempfile.TemporaryDirectory(prefix="medusa-doctor-") as scratch:
        # Where a wrapper is needed it is written there, so that looking leaves nothing behind.
        java = Path(java_home(Path(scratch))) / "bin" / "java"
        output = _output_of(java, "-version")
    return f"{output.splitlines()[0]}"


def _ports(settings: Settings) -> str:
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            port = server.getsockname()[1]
    except OSError as error:
        raise _Missing(
            f"no port on {LOOPBACK} can be bound ({error.strerror})",
            "let this user listen on the loopback interface, which catalog and metrics need",
        ) from None
    return f"a port on {LOOPBACK} can be bound (tried {port})"


def _metrics_port(settings: Settings) -> str:
    port = settings.metrics_port
    try:
        with socket.create_server((settings.metrics_host, port or 0)):
            which = "any free one" if port == 0 else f"{port} is free"
            return f"MEDUSA_METRICS_PORT: {which}"
    except OSError as error:
        if _serves_metrics(port or 0):
            return f"MEDUSA_METRICS_PORT: a driver serves its metrics on {port}"
        raise _Missing(
            f"MEDUSA_METRICS_PORT {port} cannot be bound ({error.strerror})",
            "choose another port, or 0 for a free one",
        ) from None


def _serves_metrics(port: int) -> bool:
    connection = HTTPConnection(LOOPBACK, port, timeout=METRICS_S_MAX)
    try:
        connection.request("GET", "/metrics")
        return b"medusa_" in connection.getresponse().read(1_000_000)
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _postgres(settings: Settings) -> str:
    from pipelines.catalog.postgres.home_database import catalog_url
    from pipelines.homes.home import address_of_server, known_homes, role_url

    url = settings.catalog_url_of("postgres")
    if url is not None and catalog_url(url).username is not None:
        return _server(settings, url)
    for participant in known_homes(settings.directory):
        address = address_of_server(settings, participant)
        if address is not None:
            job = role_url(settings.directory, address, participant, "job")
            return _server(settings, job)
    return _programs() if url is None else _server(settings, url)


def _programs() -> str:
    from pipelines.catalog.server.server_programs import SYSTEM_PROGRAMS, installed_programs

    programs = installed_programs()
    if not programs:
        raise _Missing(
            "no Postgres 15 to 18 on this machine",
            "run `make setup`, or set MEDUSA_CATALOG_URL to a Postgres of yours",
        )
    # The server's own choice for a new home: the machine's newest before the one brought along.
    system = [v for v in programs if programs[v][0].is_relative_to(SYSTEM_PROGRAMS)]
    output = _output_of(programs[max(system or programs)][0] / "postgres", "--version")
    return f"{output.splitlines()[0]}, started when a command needs it"


def _server(settings: Settings, url: str) -> str:
    from sqlalchemy import create_engine

    from pipelines.catalog.postgres.database_errors import errors_of_catalog
    from pipelines.catalog.postgres.home_database import catalog_url
    from pipelines.catalog.postgres.queries import query
    from pipelines.catalog.server.migrations import check_connection
    from pipelines.catalog.server.server_address import server_address
    from pipelines.homes.home import known_homes

    engine = create_engine(catalog_url(url), connect_args={"connect_timeout": 10})
    try:
        with errors_of_catalog(), engine.connect() as connection:
            version = connection.execute(query("server_version")).scalar_one()
            has_home = connection.execute(query("schema_made")).one().has_tables
            if has_home:
                check_connection(connection)
    except Unavailable as error:
        what = "start it, or correct MEDUSA_CATALOG_URL (without it, one is brought along)"
        raise _Missing(str(error), what) from None
    finally:
        engine.dispose()
    homes = [str(Participant(name)) for name in known_homes(settings.directory)]
    if has_home:
        state = "the catalog there is migrated"
    elif PARTICIPANT in (settings.catalog_url or "") or homes:
        state = f"homes made from here: {', '.join(homes) or 'none yet'}"
    else:
        state = "no catalog in it yet (replay makes its own; else `medusa migrate --participant P`)"
    return f"{server_address(url)} answers: Postgres {version}; {state}"


def _test_data(settings: Settings) -> str:
    folders = sorted(p.parent.name for p in settings.test_data.glob("*/expected"))
    if not folders:
        return f"none in {settings.test_data}: tests that need it skip (MEDUSA_TEST_DATA names it)"
    return f"{', '.join(folders)} in {settings.test_data}"


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(p for p in (path, *path.parents) if p.exists())


def _output_of(program: Path, option: str) -> str:
    """What a program says of itself; Unavailable if it does not run."""
    try:
        done = subprocess.run(
            [str(program), option], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=ANSWER_S_MAX, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{program} does not run ({error}): run `make setup`") from error
    return (done.stdout or done.stderr).strip() or "it wrote nothing"
