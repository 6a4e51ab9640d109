"""An upgrade of docker-compose.yml from an older version and a rollback, by docs/containers.md.

Two owners, one of whom reads from the other, run in containers of an older Medusa, whose homes lack
the newest migrations. They are upgraded, continue without a lost or doubled row, and are rolled
back. The older version has the packages of today, so that they are installed once. Needs an engine
of its own, as `test_compose_run.py`, and the history of the repository.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.base.time_text import iso
from tests.compose.engine import lacking, make_images, own_engine, run
from tests.compose.test_compose_run import KEPT, Stack, say, waits

OLDER = "37f1b369da9302ffa9bedf5c7a8134e7dba1309a"
"""The last version whose homes have no migration behind 0024."""

LACKS = r"the catalog lacks migration 00\d\d_\w+: run medusa migrate"
NEWER = r"this home has migration 00\d\d_\w+, which this Medusa does not know: install the newer"
PACKAGES = (
    "README.md", "bootstrap.py", "medusa_core/__init__.py", "pipelines/__init__.py",
    "pyproject.toml", "requirements.lock",
)  # fmt: skip
"""What the layer of the image with the packages is made of."""

OWNERS = ("alpha", "beta")
GROWS_US = 10_000_000
SOURCE = """
from medusa_core.network import Network, Source

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}
network = Network(
    name="landed", sources=(Source(name="given", columns=COLUMNS, time="ts_us"),), boxes=(),
    outputs=(), bucket="2s",
)
"""
READER = """
from medusa_core.network import Filter, Network, Output, Source

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}
network = Network(
    name="copied", sources=(Source(name="given", stream="alpha/given", columns=COLUMNS),),
    boxes=(Filter(name="kept", input="given", cases={"yes": "resp_p >= 0"}),),
    outputs=(Output(name="copy", input="kept"),), bucket="2s",
)
"""
FILES = {
    "alpha/networks/landed.py": SOURCE,
    "alpha/participants/alpha.yaml": (
        "participant: alpha\nruns:\n  - network: networks/landed.py\n    sources: [given]\n"
    ),
    "alpha/streams/given.yaml": (
        "stream: given\nsource: {kind: generate, seed: 5, rate_per_s: 20, sources: 8}\n"
        "readers: [beta]\n"
    ),
    "beta/networks/copied.py": READER,
    "beta/participants/beta.yaml": (
        "participant: beta\nruns:\n  - network: networks/copied.py\n    fragments: [main]\n"
    ),
}

pytestmark = pytest.mark.compose


class Two(Stack):
    """The containers of alpha, who lands a stream, and of beta, who reads it."""

    def start(self) -> None:
        self.compose("up", "--detach", "--no-build", *OWNERS)
        waits(lambda: all(self.health(name) == "healthy" for name in OWNERS), "both are healthy")

    def copied_us(self) -> int:
        """Up to where beta's copy is final."""
        with suppress(AssertionError, StopIteration):
            return int(self.stream("copy", "beta")["stable_through_us"] or 0)
        return 0

    def goes_on(self) -> int:
        """Wait until beta's copy has grown; up to where it is final then."""
        from_us = self.copied_us()
        waits(lambda: self.copied_us() >= from_us + GROWS_US, "beta's copy grows")
        return self.copied_us()

    def rows(self, owner: str, stream: str, from_us: int, to_us: int) -> list[str]:
        """The final rows of a range, in an order of their own."""
        told = self.inside(owner, "medusa", "read", stream, "--from", iso(from_us), "--to",
                           iso(to_us), "--limit", "1000000", "--json")  # fmt: skip
        return sorted(json.dumps(row, sort_keys=True) for row in json.loads(told)["rows"])

    def says(self, *words: str) -> str:
        """What a command in a new container of alpha prints, beside the Postgres of its home."""
        self.compose("up", "--detach", "--no-build", "alpha-postgres")
        waits(lambda: self.health("alpha-postgres") == "healthy", "the catalog answers")
        return self.compose("run", "--rm", "-T", "--no-deps", "alpha", *words)


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Two]:
    """The older version built and running; nothing is left at the end."""
    if why := lacking():
        pytest.skip(why)
    checkout, contracts = KEPT / "older", tmp_path / "contracts"
    check_out(checkout)
    for name, text in FILES.items():
        file = contracts / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)  # user 10001 reads the contracts
    with own_engine(KEPT / "engine") as engine:
        made = Two(engine, folder=checkout)
        made = replace(made, given={**made.given, "MEDUSA_CONTRACTS": str(contracts)})
        make_images(engine, KEPT)
        made.compose("build", "--quiet", "alpha-apply")
        with made.ended():
            made.start()
            join(made)
            yield made


def check_out(folder: Path) -> None:
    """The older version, with what decides which packages there are as it is today."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", OLDER], cwd=REPOSITORY, capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history of the repository does not reach back to {OLDER}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    for name in PACKAGES:
        shutil.copy2(REPOSITORY / name, folder / name)
    for name in ("backup.sh", "restore.sh", "volumes.sh"):
        shutil.copy2(REPOSITORY / "docker" / name, folder / "docker" / name)


def join(stack: Two) -> None:
    """Alpha and beta become partners, and apply: an invitation waits until it is accepted."""
    alpha, beta = map(stack.container, OWNERS)
    invite = f"docker exec {alpha} medusa partner invite beta < /dev/null"
    accept = f"docker exec --interactive {beta} medusa partner accept -"
    run(["sh", "-c", f"{invite} | {accept}"], stack.engine.environment)
    for owner in OWNERS:
        stack.compose("run", "--rm", "-T", f"{owner}-apply", "sh", "/opt/medusa/docker/apply.sh")


def test_an_upgrade_continues_without_a_lost_or_doubled_row_and_a_rollback_restores_the_backup(
    older: Two, tmp_path: Path
) -> None:
    waits(lambda: older.copied_us() > 0, "first results")
    begins_us = older.copied_us()
    before_us = older.goes_on()
    backup = tmp_path / "before-upgrade"
    newer = upgrade(older, backup)
    kept = check_upgraded(newer, begins_us, before_us)
    roll_back(older, newer, backup)
    waits(lambda: older.copied_us() > 0, "the older version answers")
    assert older.rows("beta", "copy", begins_us, before_us) == kept
    after_us = older.goes_on()
    landed = older.rows("alpha", "given", begins_us, after_us)
    assert older.rows("beta", "copy", begins_us, after_us) == landed
    say(f"the older version goes on: {len(landed):,} rows in both homes")


def upgrade(older: Two, backup: Path) -> Two:
    """As docs/containers.md says; the home is refused by the newer version until it is migrated."""
    newer = replace(older, folder=REPOSITORY)
    older.engine.docker("tag", "medusa", "medusa:before")
    newer.compose("build", "--quiet", "alpha-apply")
    with pytest.raises(AssertionError, match="a service runs: stop all of them first"):
        newer.script("backup.sh", str(backup))
    stopped = time.monotonic()
    older.compose("stop", "--timeout", "60")
    newer.script("backup.sh", str(backup))
    say(f"stopped and copied in {time.monotonic() - stopped:.0f} s")
    with pytest.raises(AssertionError, match=LACKS):
        newer.says("medusa", "streams")
    newer.start()
    say(f"upgraded and healthy {time.monotonic() - stopped:.0f} s after the stop")
    return newer


def check_upgraded(newer: Two, begins_us: int, before_us: int) -> list[str]:
    """Rows of before are as they were, later ones join them, and both homes agree."""
    for owner in OWNERS:
        assert "migrations" in newer.inside(owner, "medusa", "doctor")
    after_us = newer.goes_on()
    assert after_us > before_us
    landed = newer.rows("alpha", "given", begins_us, after_us)
    assert landed
    assert newer.rows("beta", "copy", begins_us, after_us) == landed
    check = ("medusa", "quality", "run", "copy", "--from", iso(begins_us), "--to", iso(after_us))
    told = json.loads(newer.inside("beta", *check, "--json"))["certificates"]
    assert {one["law"] for one in told} >= {"L1", "L2", "S1"}
    assert all(one["passed"] for one in told)
    say(f"{len(landed):,} rows over the upgrade, the same in both homes and certified")
    return newer.rows("beta", "copy", begins_us, before_us)


def roll_back(older: Two, newer: Two, backup: Path) -> None:
    """The older version refuses what was migrated, until the backup is restored."""
    newer.compose("stop", "--timeout", "60")
    older.engine.docker("tag", "medusa:before", "medusa")
    with pytest.raises(AssertionError, match=NEWER):
        older.says("medusa", "streams")
    older.compose("stop", "--timeout", "60")
    older.script("restore.sh", str(backup))
    began = time.monotonic()
    older.start()
    say(f"rolled back and healthy after {time.monotonic() - began:.0f} s")
