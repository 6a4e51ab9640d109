"""Four participants that run below a platform: deployed, looked at and asked through Airflow."""

from __future__ import annotations

import itertools
import json
import re
import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import SERVER, known_homes, open_home
from tests.hosting.platforms import Platform
from tests.waiting import until

ALPHA, BETA, GAMMA, DELTA = map(Participant, ("alpha", "beta", "gamma", "delta"))
RUNS_S_MAX = 900
RUN_S_MAX = 600
ENDED = ("success", "failed")
ANSWERED = ((BETA, "lower"), (DELTA, "pages"))
"""Who computes which stream."""
STRETCH_US, STRETCHES_MAX = 15_000_000, 3
NETWORK = """
from medusa_core.network import Filter, Network, Output, Source, Union

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}
network = Network(
    name="kept",
    sources=tuple(Source(name=name, columns=COLUMNS, time="ts_us") for name in ("given", "more")),
    boxes=(
        Union(name="both", inputs=("given", "more"), fragment="main"),
        Filter(name="low", input="both", cases={"yes": "resp_p < 1024"}, fragment="main"),
        Filter(name="web", input="low", cases={"yes": "resp_p = 80"}, fragment="tail"),
    ),
    outputs=(Output(name="lower", input="low"), Output(name="pages", input="web")),
    bucket="1s",
)
"""
ROLES = {
    ALPHA: "sources: [given]",
    GAMMA: "sources: [more]",
    BETA: "fragments: [main]",
    DELTA: "fragments: [tail]",
}


BOUNDS = {"lower": "5s", "pages": "10s"}


def write_contracts(folder: Path, bounds: Mapping[str, str] = BOUNDS) -> None:
    """Alpha and gamma land a source each, beta computes from both, delta from what beta sends."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    (folder / "networks" / "kept.py").write_text(NETWORK)
    for name, does in ROLES.items():
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: networks/kept.py\n    {does}\n"
        )
    for seed, stream in enumerate(("given", "more")):
        (folder / "streams" / f"{stream}.yaml").write_text(
            f"stream: {stream}\n"
            f"source: {{kind: generate, seed: {seed}, rate_per_s: 20, sources: 4}}\n"
        )
    for stream, bound in bounds.items():
        (folder / "streams" / f"{stream}.yaml").write_text(f"stream: {stream}\nbound: {bound}\n")


class Live:
    """The federation, and Airflow's API over it."""

    def __init__(self, platform: Platform, password: str) -> None:
        self.platform = platform
        self.password = password
        self._numbers = itertools.count(1)

    @property
    def settings(self) -> Settings:
        """As a person at this machine has them: the server that runs is found by its folder."""
        settings = Settings.from_environment({"MEDUSA_DIR": str(self.platform.home)})
        return replace(settings, metrics_port=None)

    def deploy(self, bounds: Mapping[str, str] = BOUNDS) -> None:
        """Bring the contracts in by the DAG, and wait until all have answered something."""
        write_contracts(self.platform.base / "contracts", bounds)
        run = self.run("medusa_deploy")
        assert run["state"] == "success", run
        until(self.has_answered, "both fragments have computed something", RUNS_S_MAX)

    def has_answered(self) -> bool:
        return set(known_homes(self.platform.home)) == set(ROLES) and all(
            self.stable_us(name, stream) is not None for name, stream in ANSWERED
        )

    def stable_us(self, participant: Participant, stream: str) -> int | None:
        """Up to where a stream is final in a home."""
        with open_home(self.settings, participant) as home:
            for line in home.catalog.lines():
                if line.stream.name == stream and line.producer.participant == participant:
                    return line.stable_through_us
        return None

    def owner_role_urls(self) -> Mapping[Participant, str]:
        """How the tables of each home are reached, by who owns them."""
        with EmbeddedServer(self.settings.directory / SERVER) as server:
            return {
                name: server.superuser_url(database)
                for name, database in known_homes(self.settings.directory).items()
            }

    # ------------------------------------------------------------ Airflow

    def ask(self, path: str, body: Mapping[str, Any] | None = None, method: str = "") -> Any:
        return self.platform.ask(self.password, path, body, method)

    def trigger(self, dag: str, **form: Any) -> str:
        """Begin a run; its name."""
        name = f"test-{next(self._numbers)}-{time.time_ns()}"
        body = {"dag_run_id": name, "logical_date": None, "conf": form}
        return str(self.ask(f"dags/{dag}/dagRuns", body)["dag_run_id"])

    def state(self, dag: str, run: str) -> Mapping[str, Any]:
        return dict(self.ask(f"dags/{dag}/dagRuns/{run}"))

    def wait(self, dag: str, run: str) -> Mapping[str, Any]:
        """How a run ended, however often the API was away meanwhile."""
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            try:
                found.update(self.state(dag, run))
            except (OSError, json.JSONDecodeError):
                return False
            return found["state"] in ENDED

        until(has_ended, f"{run} of {dag} ends", RUN_S_MAX)
        return found

    def run(self, dag: str, **form: Any) -> Mapping[str, Any]:
        """A run from beginning to end."""
        return self.wait(dag, self.trigger(dag, **form))

    def tasks(self, dag: str, run: str) -> list[dict[str, Any]]:
        return list(self.ask(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"])

    def log(self, dag: str, run: str, task: str) -> str:
        """What a task has said so far; nothing before it begins."""
        try:
            found = self.ask(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/1")
        except urllib.error.HTTPError as error:
            error.close()
            return ""
        return json.dumps(found)

    def clear(self, dag: str, run: str, *tasks: str) -> None:
        """Let tasks of a run be done again."""
        self.ask(
            f"dags/{dag}/clearTaskInstances",
            {"dry_run": False, "dag_run_id": run, "task_ids": list(tasks), "only_failed": False,
             "reset_dag_runs": True},
        )  # fmt: skip

    def mark_failed(self, dag: str, run: str) -> None:
        """As the button does; one that has just ended stays as it is."""
        try:
            self.ask(f"dags/{dag}/dagRuns/{run}", {"state": "failed"}, "PATCH")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 409:
                raise

    @contextmanager
    def paused(self, dag: str) -> Iterator[None]:
        self.ask(f"dags/{dag}", {"is_paused": True}, "PATCH")
        try:
            yield
        finally:
            self.ask(f"dags/{dag}", {"is_paused": False}, "PATCH")

    def supervision_is_overdue(self) -> bool:
        """Whether the DAG's next run by its schedule should have begun some time ago."""
        due = self.ask("dags/medusa_supervise")["next_dagrun_run_after"]
        return bool(datetime.now(UTC) > datetime.fromisoformat(due) + timedelta(seconds=10))

    def certify(self) -> Mapping[str, str]:
        """The checks of all that is closed, as the DAG makes them: what was wrong, by home.

        The bound (S6) is promised while who computes a stream lives. It is left out of what has
        closed so far, in which everybody was killed, and held to in a stretch that begins now.
        """
        runs = {name: self.trigger("medusa_quality", participant=name) for name in ROLES}
        wrong = {}
        for name, run in runs.items():
            ended = self.wait("medusa_quality", run)
            if ended["state"] != "success" and _laws_broken(ended) != {"S6"}:
                wrong[str(name)] = str(ended["note"] or ended["state"])
        return wrong or self._certify_what_closes()

    def _certify_what_closes(self) -> Mapping[str, str]:
        """Every check of a stretch in which nobody is killed: what was wrong, by stream.

        What others do on this machine may starve one; answers that are late in each are a break.
        """
        wrong: dict[str, str] = {}
        for _ in range(STRETCHES_MAX):
            self._wait_until_final(_now_us())  # whoever was away has caught up
            from_us = _now_us()
            to_us = from_us + STRETCH_US
            self._wait_until_final(to_us)
            ended = {
                stream: self.run(
                    "medusa_quality", participant=name, stream=stream,
                    **{"from": iso(from_us), "to": iso(to_us)},
                )
                for name, stream in ANSWERED
            }  # fmt: skip
            broken = {s: one for s, one in ended.items() if one["state"] != "success"}
            wrong = {s: str(one["note"] or one["state"]) for s, one in broken.items()}
            if any(_laws_broken(one) != {"S6"} for one in broken.values()) or not wrong:
                break
        return wrong

    def _wait_until_final(self, time_us: int) -> None:
        """Event time is the clock's here."""

        def is_final() -> bool:
            return all((self.stable_us(*where) or 0) >= time_us for where in ANSWERED)

        until(is_final, f"all is final through {iso(time_us)}", RUNS_S_MAX)


def _now_us() -> int:
    """The beginning of this second, and of a bucket."""
    return time.time_ns() // 1_000_000_000 * 1_000_000


def _laws_broken(ended: Mapping[str, Any]) -> set[str]:
    """The laws that a run of medusa_quality names in its note."""
    return set(re.findall(r"broke (\w+) \(", ended["note"] or ""))


@contextmanager
def live_federation(bounds: Mapping[str, str] = BOUNDS) -> Iterator[Live]:
    """A platform with four participants that run and have answered; all is gone after."""
    platform = Platform()
    try:
        (password,) = re.findall(r"password (\S+) \(shown this once\)", platform.up())
        live = Live(platform, password)
        live.deploy(bounds)
        yield live
    finally:
        platform.remove()
