"""An alarm is raised once, has one reason at a time, ends once, and dies with its driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medusa_core.names import Participant, StreamName
from pipelines.exchange.importer import Imported
from pipelines.watching import alarms
from pipelines.watching.alarms import ALARMS_MAX, OLD_AFTER_S, Alarms, alarm_facts
from pipelines.watching.watcher import Watcher

ALPHA = Participant("alpha")
CANARY = "kanarienvogel"


def logged(directory: Path) -> list[tuple[Any, ...]]:
    text = (directory / "logs" / "alpha.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    return [(ln["of"], ln["is_raised"], ln["message"]) for ln in found if ln["event"] == "alarm"]


def raised(directory: Path) -> dict[str, str]:
    return {alarm["of"]: alarm["because"] for alarm in alarm_facts(directory, ALPHA)}


def test_an_alarm_is_raised_and_ended_once_and_shows_its_last_reason(tmp_path: Path) -> None:
    with Watcher(ALPHA, tmp_path) as watcher:
        for because in ("no room", "no room", "still no room"):
            watcher.alarm("counting", because)
        assert raised(tmp_path) == {"counting": "still no room"}
        watcher.alarm("counting", None)
        watcher.alarm("counting", None)
        assert raised(tmp_path) == {}
        watcher.alarm("counting", "again")
    assert logged(tmp_path) == [
        ("counting", True, "no room"),
        ("counting", False, "still no room"),
        ("counting", True, "again"),
    ]
    assert raised(tmp_path) == {}, "a driver that has ended has no alarm"


def test_an_alarm_lasts_from_when_it_was_raised(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path, ALPHA)
    alarms.raise_("b", "later", 150.0)
    alarms.raise_("a", "first", 100.0)
    alarms.raise_("a", "second", 120.0)
    found = [(f["of"], f["because"], f["lasts_ms"]) for f in alarm_facts(tmp_path, ALPHA, 160.0)]
    assert found == [("a", "second", 60_000), ("b", "later", 10_000)]


@pytest.mark.long
def test_the_alarms_of_a_driver_that_was_killed_are_not_shown(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path; from pipelines.watching.alarms import Alarms;"
        f"Alarms(Path({str(tmp_path)!r}), 'alpha').raise_('a', 'why', 1.0);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode < 0
    assert len(list((tmp_path / "logs").iterdir())) == 1
    assert raised(tmp_path) == {}


def test_the_alarms_of_a_driver_in_another_container_are_shown_as_long_as_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1_000.0]
    with Watcher(ALPHA, tmp_path, wall=lambda: now_s[0]) as watcher:
        watcher.alarm("counting", "no room")
        (file,) = (tmp_path / "logs").glob("alpha.alarms.*.json")
        # No process here has this number.
        file.rename(file.with_name(f"alpha.alarms.{2**22 + 1}.json"))
        assert alarm_facts(tmp_path, ALPHA, now_s[0]) == []
        monkeypatch.setattr(alarms, "process_table", lambda: "of another container")
        (shown,) = alarm_facts(tmp_path, ALPHA, now_s[0])
        assert shown["because"] == "no room"
        assert alarm_facts(tmp_path, ALPHA, now_s[0] + OLD_AFTER_S) == []
        monkeypatch.undo()
        now_s[0] += OLD_AFTER_S
        watcher.headroom([])
        monkeypatch.setattr(alarms, "process_table", lambda: "of another container")
        assert len(alarm_facts(tmp_path, ALPHA, now_s[0])) == 1, "its loop goes on"


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000, '{"started": null}', "\ud800"])
def test_a_file_that_no_driver_wrote_is_no_alarm(tmp_path: Path, content: str) -> None:
    (tmp_path / "logs").mkdir()
    for name in (os.getpid(), 1, "x"):
        file = tmp_path / "logs" / f"alpha.alarms.{name}.json"
        file.write_bytes(content.encode(errors="surrogatepass"))
    assert raised(tmp_path) == {}


def test_a_line_that_cannot_be_imported_is_an_alarm_until_it_is_imported(tmp_path: Path) -> None:
    far = StreamName("far")

    def imported(problem: str | None) -> None:
        watcher.imported(
            Imported(stream=far, producer="beta/0", segments=0, version=1, problem=problem)
        )

    with Watcher(ALPHA, tmp_path) as watcher:
        imported("it is torn")
        assert raised(tmp_path) == {"import/far of beta/0": "it is torn"}
        imported(None)
        assert raised(tmp_path) == {}


def test_no_password_reaches_an_alarm_and_there_are_only_so_many(tmp_path: Path) -> None:
    with Watcher(ALPHA, tmp_path, secrets=[f"postgresql://me:{CANARY}@here/db"]) as watcher:
        watcher.alarm(f"x {CANARY}", f"password={CANARY}")
        for number in range(2 * ALARMS_MAX):
            watcher.alarm(f"of {number}", "why")
        files = [file.read_text() for file in (tmp_path / "logs").iterdir()]
        assert len(raised(tmp_path)) == ALARMS_MAX
    assert not any(CANARY in text for text in files)
