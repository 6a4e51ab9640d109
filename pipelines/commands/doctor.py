"""`medusa doctor`: does this machine have what Medusa needs, and if not, what is to be done.

Each check looks at one thing by trying it, in a second or less, and says one line. Nothing is
installed and no server is started. Recorded test data is optional: without it tests skip.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.names import Participant
from pipelines.commands.tables import facts
from pipelines.settings import PARTICIPANT, Settings

PYTHONS = ((3, 11), (3, 13))
DISK_BYTES_MIN = 1_000_000_000
ANSWER_S_MAX = 30
_STATE = {True: "ok", False: "FAIL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found; `to_do` is empty where nothing is."""

    name: str
    is_ok: bool
    found: str
    to_do: str = ""


class _Missing(Exception):
    """A check failed: what is the case, and what to do about it."""

    def __init__(self, found: str, to_do: str) -> None:
        super().__init__(found)
        self.found, self.to_do = found, to_do


def examine(settings: Settings, *, as_json: bool) -> int:
    """Run every check and print what they found; 1 if one of them failed."""
    findings = list(findings_of(settings))
    is_ok = all(f.is_ok for f in findings)
    if as_json:
        print(json.dumps({"ok": is_ok, "checks": [asdict(f) for f in findings]}, indent=1))
    else:
        print(
            facts(
                (_STATE[f.is_ok], f.name, f"{f.found}: {f.to_do}" if f.to_do else f.found)
                for f in findings
            )
        )
    return 0 if is_ok else 1


def findings_of(settings: Settings) -> Iterator[Finding]:
    """Every check, in the order in which one needs the other."""
    checks: dict[str, Callable[[Settings], str]] = {
        "python": _python,
        "folder": _folder,
        "disk": _disk,
        "memory": _memory,
        "java": _java,
        "postgres": _server if settings.catalog_url else _programs,
        "test data": _test_data,
    }
    for name, check in checks.items():
        try:
            yield Finding(name=name, is_ok=True, found=check(settings))
        except _Missing as missing:
            yield Finding(name=name, is_ok=False, found=missing.found, to_do=missing.to_do)
        except MedusaError as error:
            # Errors of the product already say what to do.
            yield Finding(name=name, is_ok=False, found=str(error))


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
        said = _said(java, "-version")
    return f"{said.splitlines()[0]}"


def _programs(settings: Settings) -> str:
    from pipelines.catalog.server_programs import SYSTEM_PROGRAMS, installed_programs

    programs = installed_programs()
    if not programs:
        raise _Missing(
            "no Postgres 15 to 18 on this machine",
            "run `make setup`, or set MEDUSA_CATALOG_URL to a Postgres of yours",
        )
    # The server's own choice for a new home: the machine's newest before the one brought along.
    system = [v for v in programs if programs[v][0].is_relative_to(SYSTEM_PROGRAMS)]
    said = _said(programs[max(system or programs)][0] / "postgres", "--version")
    return f"{said.splitlines()[0]}, started when a command needs it"


def _server(settings: Settings) -> str:
    from sqlalchemy import create_engine, text

    from pipelines.catalog.migrations import check_connection
    from pipelines.catalog.postgres import catalog_url
    from pipelines.catalog.postgres_errors import errors_of_catalog
    from pipelines.home import known_homes

    url = settings.catalog_url_of("postgres") or ""
    engine = create_engine(catalog_url(url), connect_args={"connect_timeout": 10})
    try:
        with errors_of_catalog(), engine.connect() as connection:
            version = connection.execute(text("SHOW server_version")).scalar_one()
            there = text("SELECT to_regclass('medusa.schema_migration') IS NOT NULL")
            has_home = connection.execute(there).scalar_one()
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
    return f"MEDUSA_CATALOG_URL answers: Postgres {version}; {state}"


def _test_data(settings: Settings) -> str:
    folders = sorted(p.parent.name for p in settings.test_data.glob("*/expected"))
    if not folders:
        return f"none in {settings.test_data}: tests that need it skip (MEDUSA_TEST_DATA names it)"
    return f"{', '.join(folders)} in {settings.test_data}"


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(p for p in (path, *path.parents) if p.exists())


def _said(program: Path, option: str) -> str:
    """What a program says of itself; Unavailable if it does not run."""
    try:
        done = subprocess.run(
            [str(program), option], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=ANSWER_S_MAX, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{program} does not run ({error}): run `make setup`") from error
    return (done.stdout or done.stderr).strip() or "it said nothing"
