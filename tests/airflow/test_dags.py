"""Each DAG once, over a federation of two with real processes and a real catalog."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from medusa_core.commits import Lane
from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.supervision import Job, ProcessState
from pipelines.base.settings import Settings
from pipelines.homes.home import known_homes, open_home
from pipelines.operations.closed_windows import windows_due
from pipelines.operations.drill_forms import prepare
from pipelines.platform.drills.run_processes import running_in
from pipelines.platform.jobs.job_processes import inspect_process, signal_process
from pipelines.platform.jobs.lane_lock import occupied_ms
from pipelines.platform.jobs.supervised_homes import JobsOfHomes, open_jobs
from tests.airflow.conftest import Airflow, Ran
from tests.sweeps import IS_LONG, long_but
from tests.waiting import until

DAGS = {
    "medusa_deploy", "medusa_supervise", "medusa_round", "medusa_reconcile", "medusa_quality",
    "medusa_closed_windows", "medusa_housekeeping", "medusa_drill", "medusa_settle",
    "medusa_alarms", "medusa_recall", "medusa_revise", "medusa_move", "medusa_pause",
}  # fmt: skip
STARTS_S_MAX = 300
ALPHA, BETA = Participant("alpha"), Participant("beta")
STARTED = (ALPHA, BETA) if IS_LONG else (ALPHA,)
"""Whose jobs are started."""
WINDOW_US = 5_000_000
COMPUTED = """boxes=(
        Union(name="both", inputs=("given", "more"), fragment="main"),
        Filter(name="low", input="both", cases={"yes": "resp_p < 1024"}, fragment="main"),
    ),
    outputs=(Output(name="lower", input="low"),),"""
NETWORK = f"""
from medusa_core.network import Filter, Network, Output, Source, Union

COLUMNS = {{"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}}
network = Network(
    name="kept",
    sources=tuple(Source(name=name, columns=COLUMNS, time="ts_us") for name in ("given", "more")),
    {COMPUTED if IS_LONG else "boxes=(), outputs=(),"}
    bucket="1s",
)
"""


def write_two_sources(folder: Path) -> None:
    """Alpha and beta land a source each, and beta computes from both within 4 s.

    What is computed is looked at in `make test-long` alone; in `make test` both only land.
    """
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)
    (folder / "networks" / "kept.py").write_text(NETWORK)
    runs = {"alpha": "sources: [given]", "beta": "sources: [more]"}
    if IS_LONG:
        runs["beta"] += "\n    fragments: [main]"
        (folder / "streams" / "lower.yaml").write_text("stream: lower\nbound: 4s\n")
    for name, does in runs.items():
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: networks/kept.py\n    {does}\n"
        )
    for seed, stream in enumerate(("given", "more")):
        (folder / "streams" / f"{stream}.yaml").write_text(
            f"stream: {stream}\n"
            f"source: {{kind: generate, seed: {seed}, rate_per_s: 20, sources: 4}}\n"
        )


def jobs_of(settings: Settings, *names: Participant) -> list[Job]:
    with open_jobs(settings) as jobs:
        return [job for name in names for job in jobs.of(name).read().jobs if job.pid is not None]


def kill_jobs(settings: Settings, *names: Participant) -> None:
    for job in jobs_of(settings, *names):
        signal_process(job, signal.SIGKILL)
        until(lambda job=job: inspect_process(job) is ProcessState.GONE, "a job is gone")  # type: ignore[misc]


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(settings: Settings) -> Iterator[None]:
    """Whatever was started is ended."""
    write_two_sources(settings.directory / "contracts")
    yield
    kill_jobs(settings, *known_homes(settings.directory))


def test_all_dags_are_there_with_tags_words_for_the_operator_and_typed_forms(
    airflow: Airflow,
) -> None:
    assert set(airflow.dags) == DAGS
    for name, dag in airflow.dags.items():
        assert "medusa" in dag["tags"], name
        assert "When it is red" in dag["doc"], name
        assert dag["params"], name
        for field, schema in dag["params"].items():
            assert schema.get("type"), f"{name}: {field}"
            assert schema.get("title"), f"{name}: {field}"
            assert schema.get("description"), f"{name}: {field}"
        assert dag["file"] in {f"{name}.py", "medusa_quality.py"}


@pytest.mark.long
def test_a_folder_elsewhere_is_refused_where_the_operator_looks(airflow: Airflow) -> None:
    run = airflow.run("medusa_deploy", contracts="../../etc")
    assert run.state == "failed"
    assert run.note is not None
    assert re.search(r"contracts '../../etc' leads out of", run.note)
    assert run.states("apply") == ["upstream_failed"]


@pytest.mark.long
def test_before_anything_is_deployed_nothing_is_red_and_nobody_is_known(airflow: Airflow) -> None:
    run = airflow.run("medusa_supervise")
    assert run.state == "success"
    assert run.states("participants") == run.states("supervise") == ["skipped"]
    named = airflow.run("medusa_supervise", participants=["alpha; DROP TABLE medusa.job"])
    assert named.state == "failed"
    assert "there is no participant 'alpha; DROP TABLE medusa.job'" in str(named.note)


@pytest.mark.long
def test_a_dry_run_shows_what_would_change_and_changes_nothing(
    airflow: Airflow, settings: Settings
) -> None:
    run = airflow.run("medusa_deploy", dry_run=True)
    assert run.state == "success", run
    assert any("beta: new network kept" in line for line in run.told("plan")["changes"])
    assert run.states("apply") == run.states("approve") == ["skipped"]
    assert not known_homes(settings.directory)


@dataclass(frozen=True)
class Deployment:
    """The runs that deployed alpha and beta and started jobs."""

    deployed: Ran
    supervised: Ran


@pytest.fixture(scope="module")
def deployment(airflow: Airflow) -> Deployment:
    """alpha and beta, deployed and started; what is done before anything is deployed is above."""
    deployed = airflow.run("medusa_deploy")
    return Deployment(deployed, airflow.run("medusa_supervise", participants=list(STARTED)))


@pytest.mark.sweep
def test_deployed_and_supervised_participants_run(
    airflow: Airflow, settings: Settings, deployment: Deployment
) -> None:
    run, first = deployment.deployed, deployment.supervised
    assert run.state == "success", run
    assert run.states("approve") == ["skipped"], "no contract with a partner changes"
    assert run.told("apply")["running"] == [ALPHA, BETA]
    assert first.states("supervise") == ["success"] * len(STARTED), first
    until(
        lambda: {p.participant for p in running_in(settings.directory) if not p.waits}
        == set(STARTED),
        "they drive", STARTS_S_MAX,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
def test_what_runs_is_left_alone(airflow: Airflow, settings: Settings) -> None:
    again = airflow.run("medusa_supervise")
    assert again.state == "success"
    assert len(jobs_of(settings, ALPHA, BETA)) == 2


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize(
    ("form", "reason"),
    long_but(
        1,
        [
            ({"participant": "alpha; rm -rf /"}, "no participant 'alpha; rm -rf /'"),
            ({"lasts": "-5s"}, "lasts: duration '-5s' is not one"),
            ({"network": "netmno"}, "no network 'netmno' is deployed.*kept"),
        ],
    ),
)
def test_a_form_value_that_cannot_be_is_refused_before_anything_starts(
    airflow: Airflow, settings: Settings, form: dict[str, str], reason: str
) -> None:
    until(lambda: has_answered(settings), "beta has computed something", STARTS_S_MAX)
    with airflow.logged() as log:
        run = airflow.run("medusa_drill", **{"participant": "beta", "partner": "alpha", **form})
    assert run.state == "failed"
    assert any(re.search(reason, line) for line in log), "the log has the sentence"
    assert not [line for line in log if TRACEBACK.search(line)], log
    assert run.states("prepare") == ["failed"]
    assert re.search(reason, str(run.note)), run.note
    assert run.states("strike") == ["upstream_failed"]
    assert not (settings.directory / "drills.json").exists(), "nothing was done"


@pytest.mark.usefixtures("deployment")
def test_a_refused_act_says_why_in_a_sentence_without_a_traceback(airflow: Airflow) -> None:
    form = {"participant": "alpha", "stream": "givn", "records": "a\n1", "because": "late"}
    with airflow.logged() as log:
        run = airflow.run("medusa_revise", dry_run=False, **form)
    assert run.states("revise") == ["failed"]
    assert re.search("'givn'.*did you mean 'given'", str(run.note)), run.note
    assert not [line for line in log if TRACEBACK.search(line)], log
    assert run.told("revise", "_link_PageLink") == "/medusa/streams?home=alpha&stream=givn"


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"participant": "alpah"}, "no participant 'alpah'.*did you mean 'alpha'"),
        ({"participant": "x' OR '1'='1"}, "no participant"),
        ({"participant": None}, "participant is empty"),
        ({"participant": 7}, "not a text"),
        ({"partner": None}, "partner is empty"),
        ({"partner": "beta"}, "no link between beta and itself"),
        ({"scene": "kill"}, "leave partner empty"),
        ({"scene": "burn"}, "choose cut, one-way, slow, kill, freeze"),
        ({"lasts": "2h"}, "lasts 2h is out of range"),
        ({"lasts": ""}, "lasts is empty"),
        ({"scene": "slow"}, "by is empty"),
        ({"patience": "0s"}, "patience: duration '0s' is out of range"),
    ],
)
def test_each_field_of_a_drill_has_its_refusal(
    settings: Settings, form: dict[str, Any], reason: str
) -> None:
    given = {"scene": "cut", "participant": "beta", "partner": "alpha", "lasts": "5s", **form}
    with pytest.raises(Refused, match=reason):
        prepare(settings, given)


TRACEBACK = re.compile(r"Traceback|task_runner\.py:\d+ in ")


def has_answered(settings: Settings) -> bool:
    with open_home(settings, BETA) as home:
        return any(
            line.stream.name == "lower" and line.stable_through_us is not None
            for line in home.catalog.lines()
        )


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
def test_a_drill_is_answered_healed_corrected_and_judged(
    airflow: Airflow, settings: Settings
) -> None:
    until(lambda: has_answered(settings), "beta has computed something", STARTS_S_MAX)
    run = airflow.run(
        "medusa_drill", participant="beta", partner="alpha", lasts="20s", patience="3m",
        must_be_in_time=False, network="kept",
    )  # fmt: skip
    assert run.state == "success", (run.note, run.tasks, run.xcoms)
    assert run.told("watch")["beta/lower"] > 0, "there were tentative answers"
    judged = run.told("judge")
    assert judged["passed"]
    assert judged["checks"] == 4
    page = Path(judged["pages"][0])
    assert "corrected" in page.read_text()
    link = run.told("judge", "_link_ReportLink")
    assert link == f"/medusa/pages/reports/{page.name}"
    assert run.told("judge", "_link_CertificateLink").startswith("/medusa/pages/quality/")


@pytest.fixture(scope="module")
def closed(airflow: Airflow, settings: Settings, deployment: Deployment) -> Ran:
    """The run that told of the windows of alpha that have closed."""

    def has_closed() -> bool:
        lines = windows_due(settings, ALPHA, length_us=WINDOW_US)
        return any(window.to_us - window.from_us == WINDOW_US for window in lines)

    until(has_closed, "alpha has landed for a whole window", STARTS_S_MAX)
    return airflow.run("medusa_closed_windows", participants=["alpha"], length="5s")


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize("state", ["queued", "running"])
def test_windows_are_not_looked_for_while_checks_of_earlier_ones_have_not_ended(
    airflow: Airflow, state: str
) -> None:
    with airflow.unfinished("medusa_quality", state), airflow.logged() as log:
        run = airflow.run("medusa_closed_windows", participants=["alpha"], length="5s")
    assert run.states("participants") == run.states("windows") == ["skipped"]
    assert any("1 run of medusa_quality not ended yet" in line for line in log), log


@pytest.fixture(scope="module")
def checked(airflow: Airflow, closed: Ran) -> tuple[Ran, list[str]]:
    """The run that checked the first of them, and its log."""
    assert closed.state == "success", airflow.log.read_text()[-4_000:]
    participant, stream, from_, to = closed.told("windows")[0].split("/")
    with airflow.logged() as log:
        run = airflow.run(
            "medusa_quality", participant=participant, stream=stream, **{"from": from_, "to": to}
        )
    return run, log


@pytest.mark.long
def test_windows_that_have_closed_are_partitions_and_one_of_them_is_certified(
    closed: Ran, checked: tuple[Ran, list[str]]
) -> None:
    keys = closed.told("windows")
    assert keys
    assert set(keys) <= set(closed.partitions)
    run, log = checked
    assert run.state == "success", run
    assert run.told("certify")["checks"] >= 3
    stream, from_, to = keys[0].split("/")[1:]
    found = [
        line for line in log if f"{stream} passed " in line and f"from {from_} to {to}" in line
    ]
    assert len(found) == run.told("certify")["checks"], log
    assert any("certificate: " in line and "/medusa/pages/quality/" in line for line in log)
    assert not [line for line in log if "great_expectations" in line], "its chatter is off"


@pytest.mark.long
@pytest.mark.usefixtures("checked")
def test_a_window_that_has_been_certified_is_told_no_more(airflow: Airflow, closed: Ran) -> None:
    again = airflow.run("medusa_closed_windows", participants=["alpha"], length="5s")
    assert closed.told("windows")[0] not in (again.told("windows") or [])


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
def test_what_cannot_be_checked_is_refused_with_the_reason(airflow: Airflow) -> None:
    run = airflow.run("medusa_quality", participant="alpha", stream="givn")
    assert run.state == "failed"
    assert "no stream 'givn': did you mean 'given'?" in str(run.note)


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
def test_the_backlog_lane_is_opened_and_waited_for(airflow: Airflow) -> None:
    left = airflow.run("medusa_reconcile", participants=["alpha"])
    assert left.state == "success", left
    assert left.states("certify") == ["skipped"], "nothing was owed"
    run = airflow.run("medusa_reconcile", participants=["beta"], always=True)
    assert run.states("correct") == ["success"], airflow.log.read_text()[-6_000:]
    assert run.states("certify") == ["success"], run


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
def test_a_round_and_housekeeping_of_all_are_reported(airflow: Airflow) -> None:
    run = airflow.run("medusa_round", explain=True, only_idle=False)
    assert run.states("round") == ["success", "success"], run
    assert run.told("round")["is_explained"] is True
    left = airflow.run("medusa_round")
    assert left.told("round")["because"] == "it runs"
    settled = airflow.run("medusa_settle")
    assert settled.states("settle") == ["success", "success"], settled
    assert settled.told("settle")["settled"] == 0
    kept = airflow.run("medusa_housekeeping", explain=True)
    assert kept.states("keep_house") == ["success", "success"], kept


def recalls_of(settings: Settings, name: Participant) -> list[tuple[str, str, str]]:
    with open_home(settings, name) as home:
        return [(str(one.stream), one.because, one.who) for one in home.catalog.recalls()]


@pytest.mark.long
def test_a_recall_is_shown_first_and_made_once_however_often_its_run_is_cleared(
    airflow: Airflow, settings: Settings, closed: Ran
) -> None:
    _, stream, from_, _ = closed.told("windows")[0].split("/")
    form = {"participant": "alpha", "stream": stream, "from": from_, "because": "a drill"}
    with airflow.logged() as shown:
        assert airflow.run("medusa_recall", **form).state == "success"
    assert any("a dry run" in line for line in shown), shown
    assert recalls_of(settings, ALPHA) == []
    with airflow.logged() as log:
        runs = [
            airflow.run("medusa_recall", at="2026-01-05T08:00:00+00:00", dry_run=False, **form)
            for _ in range(2)
        ]
    assert [run.state for run in runs] == ["success", "success"], runs[-1].note
    ((recalled, because, who),) = recalls_of(settings, ALPHA)
    assert (recalled, because) == (stream, "a drill")
    assert who.startswith("dag_test, Airflow medusa_recall manual__")
    said = [line for line in log if "taken back: " in line or "this run has done it" in line]
    assert len(said) == 2, log
    link = runs[0].told("recall", "_link_PageLink")
    assert link == f"/medusa/streams?home=alpha&stream={stream}"


@pytest.mark.long
@pytest.mark.usefixtures("deployment")
def test_a_participant_is_paused_with_the_reason_and_resumed(
    airflow: Airflow, settings: Settings
) -> None:
    desired = []
    for action in ("pause", "resume"):
        run = airflow.run("medusa_pause", participants=["beta"], action=action, because="new disks")
        assert run.state == "success", run.note
        with open_jobs(settings) as jobs:
            newest = next(o for o in jobs.of(BETA).read().desired if o.lane is Lane.LIVE)
        assert (newest.because, newest.who[:8]) == ("new disks", "dag_test")
        desired.append(newest.is_desired)
    assert desired == [False, True]


def desire(jobs: JobsOfHomes, *, is_desired: bool) -> int:
    return jobs.of(ALPHA).desire(
        Lane.LIVE, is_desired=is_desired, is_lasting=True, because="a test", who="a test"
    )


def open_jobs_of(settings: Settings, name: Participant) -> list[Job]:
    with open_jobs(settings) as jobs:
        return [job for job in jobs.of(name).read().jobs if job.ended_at_ms is None]


@pytest.fixture(scope="module")
def stopped(airflow: Airflow, settings: Settings, deployment: Deployment) -> Ran:
    """The run that stopped alpha, which has ended; what needs alpha is done above."""
    with open_jobs(settings) as jobs:
        desire(jobs, is_desired=False)
    run = airflow.run("medusa_supervise", participants=["alpha"])
    until(
        lambda: ALPHA not in {p.participant for p in running_in(settings.directory)},
        "alpha stops",
        STARTS_S_MAX,
    )
    # Who has stopped driving has yet to write down its end, before which no other is intended.
    until(
        lambda: (
            not open_jobs_of(settings, ALPHA)
            and occupied_ms(settings.directory, ALPHA, Lane.LIVE) is None
        ),
        "its job has ended, and its process",
        STARTS_S_MAX,
    )
    return run


@pytest.mark.long
def test_what_shall_not_run_any_more_is_stopped(stopped: Ran) -> None:
    assert "stop, a test does not want it" in " ".join(stopped.told("supervise"))


@pytest.mark.long
@pytest.mark.usefixtures("stopped")
def test_a_job_that_is_given_up_is_reported_with_reason_and_log(
    airflow: Airflow, settings: Settings
) -> None:
    with open_jobs(settings) as jobs:
        number = desire(jobs, is_desired=True)
        job = jobs.of(ALPHA).intend(number, "a test")
        jobs.of(ALPHA).end(job, Refused.exit_code, "plan abc was made with another engine")
    run = airflow.run("medusa_supervise", participants=["alpha"])
    assert run.states("supervise") == ["failed"]
    assert "is given up, job" in str(run.note)
    assert "job-alpha-live.out" in str(run.note)


@pytest.mark.long
@pytest.mark.usefixtures("stopped")
def test_an_intent_that_nobody_took_up_is_followed_by_the_task_that_waited_for_it(
    airflow: Airflow, settings: Settings
) -> None:
    with open_jobs(settings) as jobs:
        number = desire(jobs, is_desired=True)
        left = jobs.of(ALPHA).intend(number, "a supervisor that died")
    run = airflow.run("medusa_supervise", participants=["alpha"])
    assert run.states("supervise") == ["success"], run
    with open_jobs(settings) as jobs:
        newest = max(job.id for job in jobs.of(ALPHA).read().jobs)
    assert newest > left, "one run was enough"
