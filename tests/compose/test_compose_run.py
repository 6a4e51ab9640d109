"""docker-compose.yml as it runs: built, started, a participant cut off and healed, ended.

Needs an engine of its own (`engine.py`) and some ten minutes: `make test-compose`. Each part says
what it saw, for who runs it to read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pipelines.base.settings import REPOSITORY
from tests.compose.engine import Engine, lacking, make_images, own_engine, run
from tests.contracts.shipped import OWNERS
from tests.waiting import until

KEPT = REPOSITORY / ".medusa" / "test-compose"
CONTRACTS = Path(__file__).parent / "contracts"
PROJECT = "medusatest"
FILES = ("-f", "docker-compose.yml", "-f", "tests/compose/override.yml")
COMPOSE = ("/usr/bin/docker-compose", "-p", PROJECT, *FILES)
POSTGRES = {f"{owner}-postgres" for owner in OWNERS}
OURS = {"airflow", "spark-master", "spark-worker-1", "spark-worker-2", *OWNERS}
LASTING = {*OURS, *POSTGRES}
WAIT_S_MAX = 20 * 60
KEEPS_UP_S = 10
MASTER = "http://127.0.0.1:8080/json/"
KILL = """
import os
for process in filter(str.isdecimal, os.listdir("/proc")):
    parent = open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[1]
    if parent == "1":
        os.kill(int(process), 9)
"""
"""Of a container's processes, what its init has started."""

pytestmark = pytest.mark.compose


@dataclass(frozen=True)
class Stack:
    """The containers of the project."""

    engine: Engine
    folder: Path = REPOSITORY
    """The checkout whose compose file it is."""
    given: Mapping[str, str] = field(
        default_factory=lambda: {
            **{f"MEDUSA_{owner.upper()}_PASSWORD": uuid4().hex for owner in OWNERS},
            "MEDUSA_SPARK_SECRET": uuid4().hex,
            "MEDUSA_CONTRACTS": str(CONTRACTS),
        }
    )

    def compose(self, *words: str, **more: str) -> str:
        environment = {**self.engine.environment, **self.given, **more}
        return run([*COMPOSE, *words], environment, cwd=self.folder)

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Nothing of it is left behind the block; of a failure its containers' logs are shown."""
        try:
            yield
        except AssertionError:
            with suppress(AssertionError):
                print(self.compose("ps"), self.compose("logs", "--tail", "40"))
            raise
        finally:
            with suppress(AssertionError):
                self.compose("down", "--volumes", "--timeout", "100")
            named = ("--filter", f"name={PROJECT}_")
            assert self.engine.docker("ps", "--all", "--quiet", *named) == "", "containers left"

    def join(self) -> str:
        return self.script("join.sh")

    def script(self, name: str, *words: str) -> str:
        """What a script of `docker/` prints."""
        environment = {**self.engine.environment, **self.given, "COMPOSE": " ".join(COMPOSE)}
        return run(["sh", f"docker/{name}", *words], environment, cwd=self.folder)

    def container(self, service: str) -> str:
        return f"{PROJECT}_{service}_1"

    def inside(self, service: str, *words: str) -> str:
        """What a command in a container prints."""
        return self.engine.docker("exec", self.container(service), *words)

    def health(self, service: str) -> str:
        shown = "{{.State.Health.Status}}"
        return self.engine.docker("inspect", "-f", shown, self.container(service)).strip()

    def stream(self, name: str = "counted", owner: str = "delta") -> Mapping[str, Any]:
        """How far a stream has come in an owner's home."""
        told = self.inside(owner, "medusa", "streams", "--json")
        return next(one for one in json.loads(told)["streams"] if one["stream"] == name)

    def stable_us(self) -> int:
        return int(self.stream()["stable_through_us"] or 0)

    def behind_s(self) -> float:
        return time.time() - self.stable_us() / 1e6

    def tentative_us(self) -> int:
        return int(self.stream()["tentative_through_us"] or 0)


def waits(condition: Callable[[], object], what: str) -> None:
    """For as long as containers may take on two cores."""
    until(condition, what, WAIT_S_MAX)


def say(sentence: str) -> None:
    """For who runs it."""
    print(f"\n    {sentence}", end="", flush=True)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Everything built and started; nothing of it is left at the end."""
    if why := lacking():
        pytest.skip(why)
    with own_engine(KEPT / "engine") as engine:
        made = Stack(engine)
        began = time.monotonic()
        make_images(engine, KEPT)
        say(f"base images made in {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        made.compose("build", "--quiet", "alpha-apply")
        say(f"image built in {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        with made.ended():
            made.compose("up", "--detach", "--no-build")
            waits(
                lambda: all(made.health(name) == "healthy" for name in LASTING),
                "everything is healthy",
            )
            say(f"{len(LASTING)} containers healthy after {time.monotonic() - began:.0f} s")
            began = time.monotonic()
            made.join()
            say(f"the owners are partners after {time.monotonic() - began:.0f} s")
            yield made


def test_without_its_secrets_nothing_is_started_and_it_says_what_to_set(stack: Stack) -> None:
    with pytest.raises(AssertionError, match="set MEDUSA_BETA_PASSWORD to a secret"):
        stack.compose("config", "--quiet", MEDUSA_BETA_PASSWORD="")


def test_no_owner_reaches_the_postgres_of_another(stack: Stack) -> None:
    for owner in OWNERS:
        for other in OWNERS:
            ask = f"import socket; socket.create_connection(('{other}-postgres', 5432), 5)"
            if owner == other:
                stack.inside(owner, "python3", "-c", ask)
            else:
                with pytest.raises(AssertionError, match=r"not known|resolution|timed out"):
                    stack.inside(owner, "python3", "-c", ask)
    say("each Postgres is reached by its owner's participant alone")


def test_nothing_of_ours_runs_as_root_or_can_write_the_image(stack: Stack) -> None:
    for name in sorted(OURS):
        assert stack.inside(name, "id", "-u").strip() == "10001", name
        with pytest.raises(AssertionError, match="Read-only file system"):
            stack.inside(name, "touch", "/opt/medusa/written")


def test_the_steps_of_delta_run_on_both_workers(stack: Stack) -> None:
    waits(lambda: stack.stable_us() > 0, "first results")
    ask = f"from urllib.request import urlopen; print(urlopen('{MASTER}').read().decode())"
    master = json.loads(stack.inside("spark-master", "python3", "-c", ask))
    assert [(one["state"], one["coresused"]) for one in master["workers"]] == [("ALIVE", 1)] * 2
    (application,) = master["activeapps"]
    assert application["cores"] == 2
    say("delta's steps run on two workers of Spark's master")


def test_a_participant_that_is_cut_off_is_answered_without_and_corrected_when_it_heals(
    stack: Stack,
) -> None:
    # What came while Spark started was late, and what queued up behind it.
    waits(lambda: stack.behind_s() < KEEPS_UP_S, "delta keeps up with what comes")
    from_s = stack.stable_us() // 1_000_000
    network, beta = f"{PROJECT}_federation", stack.container("beta")
    stack.engine.docker("network", "disconnect", network, beta)
    cut = time.monotonic()
    try:
        waits(lambda: stack.tentative_us() > stack.stable_us(), "tentative answers")
        say(f"{time.monotonic() - cut:.0f} s after the cut of beta: answers without it, tentative")
        before_us = stack.stable_us()
        landed_us = stack.stream("given_b", "beta")["stable_through_us"]
        waits(
            lambda: stack.stream("given_b", "beta")["stable_through_us"] > landed_us,
            "beta goes on with what is its own",
        )
        owed_us = stack.tentative_us()
        assert stack.stable_us() == before_us, "nothing is final without beta"
        assert {stack.health(name) for name in ("alpha", "gamma", "delta")} == {"healthy"}
    finally:
        stack.engine.docker("network", "connect", network, beta)
    healed = time.monotonic()
    waits(lambda: stack.stable_us() > owed_us, "all of it is corrected")
    say(
        f"{(owed_us - before_us) / 1e6:.0f} s of event time were tentative, and stable "
        f"{time.monotonic() - healed:.0f} s after it healed"
    )
    waits(lambda: stack.health("beta") == "healthy", "beta is healthy")
    check = ("medusa", "quality", "run", "counted")
    span = ("--from", str(from_s), "--to", str(owed_us // 1_000_000))  # what comes is open still
    told = stack.inside("delta", *check, *span, "--json")
    checks = {one["law"]: one for one in json.loads(told)["certificates"]}
    assert {"L1", "L2", "S1", "S6"} <= set(checks)
    assert all(one["passed"] for one in checks.values())
    figures = (f"{law} {one['figures']}" for law, one in checks.items())
    say("certificate green: " + "; ".join(figures))


def test_a_participant_whose_process_dies_is_restarted_and_continues(stack: Stack) -> None:
    waits(lambda: stack.stable_us() > 0, "first results")
    stack.inside("delta", "python3", "-c", KILL)
    count = ("inspect", "-f", "{{.RestartCount}}", stack.container("delta"))
    waits(lambda: stack.engine.docker(*count).strip() == "1", "it is restarted")
    waits(lambda: stack.health("delta") == "healthy", "it runs again")
    behind_us = stack.stable_us()
    waits(lambda: stack.stable_us() > behind_us, "it goes on")


def test_airflow_has_read_every_dag_and_knows_the_home_of_delta_alone(stack: Stack) -> None:
    state = json.loads(stack.inside("airflow", "cat", "/srv/medusa/airflow/state.json"))
    assert state["phase"] == "up"
    assert state["notes"] == [], "no DAG has an error"
    assert [one["condition"] for one in state["components"]] == ["runs"] * 4
    homes = json.loads(stack.inside("airflow", "cat", "/srv/medusa/home.json"))
    assert set(homes["participants"]) == {"delta"}
    say(f"Airflow up in {state['took_ms'] / 1000:.0f} s, its DAGs read without an error")
