"""What the log says of decisions: one line each, with reasons and numbers, and no secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medusa_core.decide import Adopt, DecisionReason, Wait
from medusa_core.errors import Conflict, Unavailable
from medusa_core.grid import Range
from medusa_core.knowledge import NEVER_MS, FragmentKnowledge, ProviderKnowledge
from medusa_core.names import StreamName
from medusa_core.segments import Stability
from pipelines.base.settings import Settings
from pipelines.exchange.importer import Imported
from pipelines.participant.housekeeper import TrimmedLine
from pipelines.sources.live.live_source import Polled
from pipelines.spark.results import Verified
from pipelines.watching.watcher import Watcher, watcher_of
from tests.catalog import building as a
from tests.core.test_adopting import decided, moved
from tests.watching.homes import World

CANARY = "kanarienvogel"


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time_() -> Time:
    return Time()


@pytest.fixture
def watcher(tmp_path: Path, time_: Time) -> Watcher:
    secrets = [f"postgresql://me:{CANARY}@db/x"]
    networks = {a.MAIN: "example"}
    return Watcher(
        a.ALPHA, tmp_path, network_of=networks, secrets=secrets, monotonic=time_, wall=time_
    )


def lines(directory: Path) -> list[dict[str, Any]]:
    path = directory / "logs" / "alpha.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def known_provider(fragment: FragmentKnowledge) -> ProviderKnowledge:
    assert fragment.provider is not None
    return fragment.provider


def test_a_step_is_one_line_with_its_reason_its_commit_and_its_cost(
    watcher: Watcher, tmp_path: Path, time_: Time
) -> None:
    world = World()
    world.close()
    (decision, *_) = world.decisions()
    watcher.decided(decision)
    time_.now_s += 0.25
    applied = world.compute(quarantine=(a.a_bad_record(),))
    watcher.applied(applied)
    (line,) = lines(tmp_path)
    assert line["ts"] == "1970-01-01T00:16:40.250Z"
    assert (line["participant"], line["network"]) == ("alpha", "example")
    assert (line["fragment"], line["event"], line["streams"]) == (a.MAIN, "compute", ["sums"])
    assert (line["from_us"], line["to_us"]) == (0, 2 * a.WIDTH_US)
    assert (line["stability"], line["cause"]) == ("stable", "normal")
    assert line["because"]["reason"] == "the boundary of every input has passed it"
    assert line["because"]["records"] == 6
    assert line["commit_key"] == applied.commit.key
    assert (line["versions"], line["again"]) == ({"sums": 1}, False)
    assert (line["records_in"], line["records_out"], line["quarantined"]) == (6, 2, 1)
    assert (line["ms"], line["phases_ms"]) == (250.0, {"run": 40.0, "sync": 10.0})


def test_a_prepared_job_that_differs_is_a_line_and_an_alarm(
    watcher: Watcher, tmp_path: Path
) -> None:
    agreed = Verified(fragment=a.MAIN, job="the prepared job", range=Range(0, 10), difference=None)
    watcher.verified(agreed)
    watcher.verified(replace(agreed, difference="stream sums has 1 rows"))
    first, second, alarm = lines(tmp_path)
    assert (first["event"], first["result"], first["fragment"]) == ("verify", "agreed", a.MAIN)
    assert (second["result"], second["to_us"]) == ("differed", 10)
    assert "stream sums has 1 rows; the result of the ordinary plan was taken" in second["message"]
    assert (alarm["event"], alarm["is_raised"]) == ("alarm", True)
    assert alarm["of"] == f"the prepared job of {a.MAIN}"


def test_a_gap_that_a_lost_provider_leaves_is_an_alarm_until_the_driver_ends(
    watcher: Watcher, tmp_path: Path
) -> None:
    fragment = moved(from_s=0, to_s=120, through_s=180)
    provider = replace(known_provider(fragment), timeout_ms=NEVER_MS)
    world = World()
    world.close()
    applied = world.compute()
    for _ in range(2):
        decision = decided(replace(fragment, provider=provider))
        assert isinstance(decision, Adopt)
        watcher.applied(replace(applied, decision=decision))
        fragment = moved(from_s=0, to_s=120, through_s=180, computed_s=60)
    ((of, because),) = watcher.raised().items()
    assert of == f"a range of {decision.fragment.fragment.id}"
    assert because == (
        "beta was lost, and its results from 1970-01-01T00:00:00Z to 1970-01-01T00:02:00Z that had "
        "not arrived are a gap, as its contract promises"
    )
    assert [line["event"] for line in lines(tmp_path)] == ["adopt", "alarm", "adopt"]
    watcher.close()
    assert watcher.raised() == {}


def test_closing_is_a_line_of_the_sources_landing(watcher: Watcher, tmp_path: Path) -> None:
    watcher.applied(World().close())
    (line,) = lines(tmp_path)
    assert (line["event"], line["fragment"], line["streams"]) == ("close", a.LANDING, ["src"])
    assert (line["cause"], line["versions"], line["ms"]) == ("landing", {"src": 1}, None)


def test_a_tentative_step_is_reported_as_one(watcher: Watcher, tmp_path: Path) -> None:
    world = World()
    world.close()
    watcher.applied(world.compute(Stability.TENTATIVE))
    assert lines(tmp_path)[0]["stability"] == "tentative"


def test_each_decision_of_a_round_has_its_own_time_though_all_are_told_at_its_end(
    watcher: Watcher, tmp_path: Path, time_: Time
) -> None:
    world = World()
    closing, computing = world.close(), world.compute()
    for applied, seconds in ((closing, 1.0), (computing, 2.0)):
        watcher.decided(applied.decision)
        time_.now_s += seconds
    watcher.decided(Wait(of=a.TAIL, because=DecisionReason("later", {})))
    time_.now_s += 60
    watcher.applied(closing)
    watcher.applied(computing)
    assert [ln["ms"] for ln in lines(tmp_path) if ln["event"] != "wait"] == [1_000.0, 2_000.0]


def test_a_wait_is_reported_once_until_its_reason_changes(watcher: Watcher, tmp_path: Path) -> None:
    for reason, boundary_us in (("no input", 1), ("no input", 2), ("ended", 3), ("no input", 4)):
        watcher.decided(
            Wait(of=a.MAIN, because=DecisionReason(reason, {"boundary_us": boundary_us}))
        )
        watcher.decided(Wait(of=a.TAIL, because=DecisionReason("another's", {})))
    told = [ln for ln in lines(tmp_path) if ln["fragment"] == a.MAIN]
    assert [ln["event"] for ln in told] == ["wait"] * 3
    assert [ln["because"]["boundary_us"] for ln in told] == [1, 3, 4]
    assert len(lines(tmp_path)) == 4


def test_a_source_waits_under_the_name_of_its_landing(tmp_path: Path) -> None:
    with Watcher(a.ALPHA, tmp_path, network_of={a.LANDING: "example"}) as watcher:
        (wait,) = [
            d for d in World(promised=0).decisions() if isinstance(d, Wait) and d.of == a.SRC
        ]
        watcher.decided(wait)
    (line,) = lines(tmp_path)
    assert (line["fragment"], line["network"], line["event"]) == (a.LANDING, "example", "wait")


def test_the_same_problem_is_reported_once_a_minute_with_its_count(
    watcher: Watcher, tmp_path: Path, time_: Time
) -> None:
    for _ in range(120):
        watcher.error(Unavailable("the catalog is away"))
        watcher.error(Conflict("somebody was first"))
        time_.now_s += 1
    told = [(ln["error"], ln["times"]) for ln in lines(tmp_path)]
    away, conflict = "Unavailable", "Conflict"
    assert told == [(away, 1), (conflict, 1), (away, 60), (conflict, 60)]


def test_an_error_names_the_decision_that_it_ended(watcher: Watcher, tmp_path: Path) -> None:
    world = World()
    world.close()
    (decision, *_) = world.decisions()
    watcher.decided(decision)
    watcher.error(Unavailable("a file is gone"), decision)
    (line,) = lines(tmp_path)
    assert (line["event"], line["decision"], line["fragment"]) == ("error", "compute", a.MAIN)
    assert line["to_us"] == 2 * a.WIDTH_US


def test_time_lost_to_an_error_is_no_part_of_the_next_step(
    watcher: Watcher, tmp_path: Path, time_: Time
) -> None:
    applied = World().close()
    watcher.decided(applied.decision)
    time_.now_s += 100
    watcher.error(Unavailable("away"))
    watcher.decided(applied.decision)
    time_.now_s += 1
    watcher.applied(applied)
    assert lines(tmp_path)[-1]["ms"] == 1_000.0


def test_landings_and_partners_news_are_lines(watcher: Watcher, tmp_path: Path) -> None:
    because = "the source is asked"
    polled = Polled(landed=7, quarantined=1, late=1, batches=2, boundary_us=5, because=because)
    watcher.polled(a.SRC, polled)
    watcher.polled(a.SRC, Polled(boundary_us=6, because="nothing is there"))
    news = Imported(stream=StreamName("far"), producer="beta/0", segments=2, version=9)
    watcher.imported(news)
    land, import_ = lines(tmp_path)
    assert (land["event"], land["fragment"]) == ("land", a.LANDING)
    assert (land["records_out"], land["quarantined"], land["boundary_us"]) == (7, 1, 5)
    assert (land["batches"], land["late"], land["boundary_because"]) == (2, 1, because)
    assert (import_["event"], import_["fragment"]) == ("import", "import/far")
    assert (import_["producer"], import_["segments"]) == ("beta/0", 2)
    assert import_["versions"] == {"far": 9}


def test_what_housekeeping_let_go_is_a_line(watcher: Watcher, tmp_path: Path) -> None:
    watcher.trimmed(TrimmedLine(a.SRC, a.ME, 7, segments=3, rows=30, files=2, bytes=4_096))
    (line,) = lines(tmp_path)
    assert {name: line[name] for name in ("event", "streams", "producer", "before_us")} == {
        "event": "trim", "streams": [a.SRC], "producer": str(a.ME), "before_us": 7,
    }  # fmt: skip
    assert [line[name] for name in ("segments", "rows", "files", "bytes")] == [3, 30, 2, 4_096]


def test_an_unavailable_partner_is_reported_when_it_leaves_and_when_it_returns(
    watcher: Watcher, tmp_path: Path
) -> None:
    def asked(problem: str | None) -> None:
        of = {"stream": StreamName("far"), "producer": "beta/0"}
        watcher.imported(Imported(**of, segments=0, version=9, problem=problem))  # type: ignore[arg-type]

    for problem in ("beta is away", "beta is away", "beta is away", None, "beta is away"):
        asked(problem)
    told = [ln for ln in lines(tmp_path) if ln["event"] == "import"]
    assert [ln.get("message") for ln in told] == ["beta is away", None, "beta is away"]


def test_no_password_reaches_the_log(watcher: Watcher, tmp_path: Path) -> None:
    watcher.error(Unavailable(f"postgresql://you:{CANARY}@elsewhere/db is away"))
    watcher.error(RuntimeError(f"dsn password={CANARY} host=x, and {CANARY} alone"))
    watcher.decided(
        Wait(of=f"x/{CANARY}", because=DecisionReason(f"password={CANARY}", {CANARY: 1}))
    )
    away = f"http://a:{CANARY}@b"
    watcher.imported(
        Imported(stream=StreamName(CANARY), producer=CANARY, segments=0, version=1, problem=away)
    )
    watcher.polled(StreamName(CANARY), Polled(landed=1, batches=1, because=CANARY))
    assert len(lines(tmp_path)) == 6
    text = (tmp_path / "logs" / "alpha.jsonl").read_text()
    assert CANARY not in text
    assert "***" in text


def test_values_from_anywhere_stay_inside_their_line(watcher: Watcher, tmp_path: Path) -> None:
    nasty = 'a\nb"}\x1b[31m\u2028\ud800{"event":"compute"}'
    watcher.error(RuntimeError(nasty))
    watcher.decided(Wait(of=nasty, because=DecisionReason(nasty, {nasty: 1})))
    assert [ln["event"] for ln in lines(tmp_path)] == ["error", "wait"]
    assert b"\x1b" not in (tmp_path / "logs" / "alpha.jsonl").read_bytes()


def test_a_log_that_cannot_be_written_does_not_stop_the_loop(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    with Watcher(a.ALPHA, tmp_path) as watcher:
        watcher.applied(World().close())
        watcher.error(Unavailable("away"))


def test_the_environment_settles_where_and_whether(tmp_path: Path) -> None:
    settings = Settings(
        catalog_url=f"postgresql://me:{CANARY}@db/x", directory=tmp_path, test_data=tmp_path
    )
    world = World()
    with watcher_of(settings, a.ALPHA, world.catalog) as watcher:
        assert watcher.metrics_url is None
        watcher.applied(world.close())
        watcher.error(Unavailable(CANARY))
    close, error = lines(tmp_path)
    assert (close["network"], error["message"]) == ("example", "***")
