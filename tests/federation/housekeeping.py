"""`medusa trim` here or in a process of its own, and what a home keeps after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from medusa_core.names import Participant
from pipelines.base.failpoints import FILE, POINT
from pipelines.cli.main import main
from pipelines.participant.home_session import open_session
from pipelines.storage.orphans import find_orphans
from pipelines.storage.segment_rows import columns_of, read_segments
from tests.federation.processes import END_S_MAX, Installation, kill
from tests.waiting import until

NEVER = 1e18
"""A time of now at which everything is old."""


def start_command(
    installed: Installation,
    name: str,
    *words: str,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """A command of `medusa` about a participant's home, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli.main", *words, "--participant", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={
            **os.environ,
            "MEDUSA_DIR": str(installed.folder),
            "MEDUSA_CATALOG_URL": installed.settings.catalog_url or "",
            **(environment or {}),
        },
    )


def command(installed: Installation, name: str, *words: str) -> None:
    """Run a command to its end, in this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MEDUSA_DIR", str(installed.folder))
        patched.setenv("MEDUSA_CATALOG_URL", installed.settings.catalog_url or "")
        assert main([*words, "--participant", name]) == 0


def kill_command_at(installed: Installation, name: str, point: str, *words: str) -> bool:
    """Run a command up to a point and kill it there; False if it ended before."""
    announced = installed.folder / f"reached-{name}"
    announced.unlink(missing_ok=True)
    process = start_command(
        installed, name, *words, environment={POINT: point, FILE: str(announced)}
    )
    try:
        until(
            lambda: announced.exists() or process.poll() is not None,
            f"{' '.join(words)} reaches {point}",
            seconds_max=END_S_MAX,
        )
        return announced.exists()
    finally:
        kill(process)
        announced.unlink(missing_ok=True)


def kept(installed: Installation, name: str) -> dict[str, object]:
    """What a home keeps, and what its files hold; every file is checked against its hash.

    For each line: where it is trimmed, its segments, how many files they name, and all rows. No
    file may lie there that nothing names.
    """
    with open_session(installed.settings, Participant(name)) as session:
        catalog, root = session.home.catalog, session.home.storage
        found: dict[str, object] = {}
        for status in catalog.streams():
            segments = catalog.segments(status.stream.name, producer=status.producer)
            tables = read_segments(root, segments, columns_of(status.stream))
            found[f"{status.stream.name} by {status.producer}"] = (
                status.trimmed_us,
                [(s.range, s.stability, s.version, s.plan, dict(s.buckets)) for s in segments],
                len({file.path for s in segments for file in s.files}),
                sorted(str(row) for table in tables for row in table.to_pylist()),
            )
        found["orphans"] = find_orphans(root, catalog.named_files, NEVER, 0)
        assert found["orphans"] == ()
        return found
