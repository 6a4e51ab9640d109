"""`medusa revise` killed at each of its gaps makes its revision as a whole, or nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.base.failpoints import REVISION_POINTS
from pipelines.storage.orphans import find_orphans
from tests.revisions.test_revised_streams import (
    CALLS,
    WHY,
    RevisedHome,
    a_file,
    calls,
    of_whole,
    revised,
)
from tests.waiting import until

__all__ = ["revised"]

pytestmark = pytest.mark.usefixtures("interpreted")

LATE = (85, 86, 87)
IN_FUTURE = 2.0**62


def kill_at(revised: RevisedHome, point: str, file: Path, announced: Path) -> None:
    """Revise in a process of its own, and kill it where it reaches a point."""
    settings = revised.settings
    environment = {
        **os.environ,
        "MEDUSA_DIR": str(settings.directory),
        "MEDUSA_CATALOG_URL": str(settings.catalog_url),
        "MEDUSA_FAILPOINT": point,
        "MEDUSA_FAILPOINT_FILE": str(announced),
    }
    words = ["revise", "calls", "--add", str(file), *WHY, "--yes"]
    command = [sys.executable, "-m", "pipelines.cli.main", *words]
    with subprocess.Popen(command, env=environment, start_new_session=True) as revising:
        try:
            until(
                lambda: announced.exists() or revising.poll() is not None,
                f"the command has reached {point}",
                seconds_max=300,
            )
            assert revising.poll() is None, "it ended before"
        finally:
            os.killpg(revising.pid, signal.SIGKILL)


@pytest.mark.long
def test_killed_at_every_gap_a_revision_is_made_once_or_not(
    revised: RevisedHome, tmp_path: Path
) -> None:
    before = revised.digests()
    file = a_file(tmp_path / "it.csv", "".join(f"{at},a\n" for at in LATE))
    for point in REVISION_POINTS:
        catalog = revised.home.catalog
        assert catalog.recalls() == (), "nothing of it was made before"
        kill_at(revised, point, file, tmp_path / point)
        if point != REVISION_POINTS[-1]:
            revised.run()
            assert revised.digests() == before, point
    orphans = find_orphans(revised.home.storage, catalog.named_files, IN_FUTURE, 0)
    assert len(orphans) == 1, "the rows of the one that was killed before it was made"
    (done,) = catalog.recalls()
    assert (done.stream, done.generation) == (CALLS, 2)
    revised.run()
    assert revised.digests() == of_whole(revised.replayer, tmp_path, calls(extra=LATE))
