"""A home whose making is killed half way: every command continues it, or refuses in one sentence.

The making process is killed at a step drawn from a seed: before a change of a file, the start of
a program or a statement to the database, see `killed_at`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home
from pipelines.cli.main import main
from pipelines.homes.home import SERVER, known_homes
from tests.conftest import folder_on_memory
from tests.federation.building import write_replicated
from tests.hostile.judging import a_sentence, fit_for_a_terminal, in_time
from tests.sweeps import examples, long_but
from tests.waiting import until

REPOSITORY = Path(__file__).parents[2]
SECONDS_MAX = 300
KILLS, LOOKS_SHORT = examples(1, 2), examples(1, 3)
KILLS_LONG = 60
SERVERS = ("a server", "the folder's own server")

LOOKS: Sequence[Sequence[str]] = (
    ("status",), ("status", "--json"), ("streams",), ("read", "given"), ("tick", "--explain"),
    ("supervise", "--once", "--explain"), ("trim", "--orphans", "--explain"), ("explain",),
    ("quality", "run"), ("cursor", "list"), ("contract", "show"), ("doctor", "--json"),
)  # fmt: skip
"""Commands that change nothing of a home."""


@dataclass(frozen=True)
class Place:
    """Where a home of alpha is made: a folder, and the server if it is not the folder's own."""

    folder: Path
    catalog_url: str

    @property
    def directory(self) -> Path:
        """MEDUSA_DIR, and what a replay keeps."""
        return self.folder / "home"

    @property
    def applies(self) -> Sequence[str]:
        """The command that makes the home of alpha."""
        return "apply", "--contracts", str(self.folder / "contracts"), "--participant", "alpha"

    @property
    def replays(self) -> Sequence[str]:
        """The command that makes a home for a replay."""
        return (
            "replay", str(self.folder / "contracts/networks/replicated.py"),
            "--input", str(self.folder / "given.csv"), "--keep", str(self.directory),
        )  # fmt: skip

    def start(self, kill_at: int, *words: str) -> subprocess.Popen[str]:
        """The command in a process of its own, which ends at this step."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.killed_at", str(self.folder), str(kill_at),
             *words],
            cwd=REPOSITORY, env={**os.environ, **self.environment()}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Of a command on this home."""
        return {"MEDUSA_DIR": str(self.directory), "MEDUSA_CATALOG_URL": self.catalog_url}

    def steps_of(self, *words: str) -> int:
        """How many steps the command takes that makes the home; the home is removed again."""
        output, errors = self.start(0, *words).communicate(timeout=SECONDS_MAX)
        assert output, errors
        self.clear()
        return int(output.split()[-1])

    def clear(self) -> None:
        """Remove the home and all that is in it."""
        if not self.catalog_url:
            EmbeddedServer(self.directory / SERVER).discard()
        elif self.directory.exists():
            for database in known_homes(self.directory).values():
                drop_home(self.catalog_url, database)
        shutil.rmtree(self.directory, ignore_errors=True)


Run = Callable[..., int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; anything but an answer or one sentence fails the test."""

    def once(place: Place, *words: str) -> int:
        for name, value in place.environment().items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        with in_time(SECONDS_MAX):
            try:
                code = main(list(words))
            except SystemExit as ending:
                code = int(ending.code or 0)
        output, errors = capsys.readouterr()
        for text in (output, errors):
            fit_for_a_terminal(text)
            assert "Traceback" not in text
        assert code in range(7), f"{words} ends with {code}: {errors}"
        if code and errors:
            a_sentence(errors, "^medusa: ", exit_code=code)
        return code

    return once


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A folder without a home."""
    url = ""
    if request.param == "a server":
        url = request.getfixturevalue("postgres_server").superuser_url()
    found = Place(folder_on_memory("medusa-killed-"), url)
    write_replicated(found.folder / "contracts")
    (found.folder / "given.csv").write_text(
        "ts_us,orig_h,resp_p\n" + "".join(f"{1_700_000_000_000_000 + i},a,80\n" for i in range(9))
    )
    yield found
    found.clear()
    shutil.rmtree(found.folder)


def look_and_make(run: Run, place: Place, chance: random.Random, looks: int) -> None:
    """Look at what is left in ways drawn by chance, then make the home of alpha after all."""
    for words in chance.sample(LOOKS, looks):
        run(place, *words)
    for words in chance.sample((("migrate",), ("migrate", "--participant", "alpha")), 1):
        run(place, *words)
    if chance.random() < 0.5:
        run(place, *place.applies, "--explain")
    assert run(place, *place.applies) == 0
    assert run(place, "status") == 0


def kill_and_look(run: Run, place: Place, seed: int, kills: int, looks: int) -> None:
    """Kill the making of a home so many times, each at another step."""
    chance = random.Random(seed)
    steps = place.steps_of(*place.applies)
    for kill_at in sorted(chance.sample(range(1, steps), kills)):
        print(f"apply is killed before step {kill_at} of {steps}, seed {seed}")
        kill(place, kill_at, *place.applies)
        look_and_make(run, place, chance, looks)
        place.clear()


def kill(place: Place, kill_at: int, *words: str) -> None:
    """Run the command up to this step and kill it there."""
    process = place.start(kill_at, *words)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == -signal.SIGKILL, errors


@pytest.mark.long
@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_after_a_kill_commands_continue_the_making_or_refuse_in_a_sentence(
    place: Place, run: Run
) -> None:
    kill_and_look(run, place, 1, KILLS, LOOKS_SHORT)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", [2, 3])
def test_after_any_kill_they_do(place: Place, run: Run, seed: int) -> None:
    kill_and_look(run, place, seed, KILLS_LONG, len(LOOKS))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to Postgres' user")
@pytest.mark.parametrize("place", ["the folder's own server"], indirect=True)
@pytest.mark.long
def test_a_folder_that_was_not_given_to_the_user_of_postgres_yet_is_given_later(
    place: Place, run: Run
) -> None:
    cluster = place.directory / SERVER / "cluster"
    cluster.mkdir(parents=True, mode=0o700)
    assert run(place, *place.applies) == 0


@pytest.mark.parametrize("place", ["the folder's own server"], indirect=True)
@pytest.mark.parametrize("victims", long_but(1, ["both", "the command", "initdb"]))
@pytest.mark.long
def test_after_a_kill_while_the_server_is_made_the_next_command_makes_it(
    place: Place, run: Run, victims: str
) -> None:
    cluster = place.directory / SERVER / "cluster"
    process = place.start(0, *place.applies)
    until(
        lambda: any(cluster.glob("new-*/data/PG_VERSION")) or process.poll() is not None,
        "initdb has begun",
        seconds_max=SECONDS_MAX,
    )
    initdb = initdb_of(process.pid)
    if victims != "initdb":
        process.kill()
    if victims != "the command":
        for pid in initdb:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    if victims == "initdb":
        assert process.returncode == 4, errors
        a_sentence(errors, "cannot be made", exit_code=4)
    until(lambda: not any(map(psutil.pid_exists, initdb)), "initdb has ended")
    assert not (cluster / "data").exists()
    run(place, "status")
    assert run(place, *place.applies) == 0
    assert not list(cluster.glob("new-*"))


def initdb_of(command: int) -> list[int]:
    """The process groups of what a command has started."""
    return [child.pid for child in psutil.Process(command).children()]


@pytest.mark.fuzz
@pytest.mark.parametrize("place", ["a server"], indirect=True)
def test_a_replay_that_is_killed_before_its_home_is_whole_is_started_again(
    place: Place, run: Run
) -> None:
    chance = random.Random(4)
    steps = place.steps_of(*place.replays)
    kill(place, chance.randrange(1, steps), *place.replays)
    for words in chance.sample(LOOKS, LOOKS_SHORT):
        run(place, *words)
    process = place.start(-1, *place.replays)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, errors


def test_a_project_that_is_killed_half_way_is_named_in_one_sentence(
    tmp_path: Path, run: Run
) -> None:
    place = Place(tmp_path, "")
    words = ("init", str(tmp_path / "project"), "--name", "mine")
    steps = place.steps_of(*words)
    shutil.rmtree(tmp_path / "project")
    kill(place, random.Random(5).randrange(2, steps + 1), *words)
    assert run(place, *words) in (0, 2)
