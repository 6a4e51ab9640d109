"""What waits at the sources is written down by the driver and read by who asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.names import Participant, StreamName
from pipelines.sources.live.live_source import Polled
from pipelines.watching.backlog import BacklogFile, backlog_facts

ALPHA, FLOWS = Participant("alpha"), StreamName("flows")
DECLARED = {FLOWS: '{"kind": "directory"}'}


def facts(folder: Path, now_s: float) -> dict[str, object]:
    (found,) = backlog_facts(folder, ALPHA, DECLARED, now_s)
    return found


def test_a_source_is_behind_since_something_first_waited(tmp_path: Path) -> None:
    file = BacklogFile(tmp_path, ALPHA)
    assert file.record(FLOWS, Polled(), 100.0) == 0
    waiting = Polled(waiting_files=7, has_waiting=True, because="the clock")
    assert file.record(FLOWS, waiting, 110.0) == 0
    assert file.record(FLOWS, waiting, 150.0) == 40
    found = facts(tmp_path, 152.0)
    assert (found["kind"], found["waiting_files"], found["waiting_records"]) == (
        "directory", 7, None
    )  # fmt: skip
    assert (found["has_waiting"], found["behind_ms"], found["told_ago_ms"]) == (
        True, 42_000, 2_000
    )  # fmt: skip
    assert file.record(FLOWS, Polled(waiting_files=0), 151.0) == 0
    assert (facts(tmp_path, 152.0)["behind_ms"], facts(tmp_path, 152.0)["waiting_files"]) == (0, 0)


@pytest.mark.parametrize(
    "content", [None, "", "[]", '{"flows": 1}', '{"flows": {"reported_at_s": "x"}}']
)
def test_figures_that_no_driver_has_reported_are_unknown(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "alpha.sources.json").write_text(content)
    found = facts(tmp_path, 100.0)
    assert (found["told_ago_ms"], found["waiting_files"], found["has_waiting"]) == (
        None, None, False
    )  # fmt: skip


@pytest.mark.parametrize("since", ["null", "1e999", "1" + "0" * 400, '"x"'])
def test_a_source_is_behind_since_its_report_if_the_time_before_is_not_valid(
    tmp_path: Path, since: str
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "alpha.sources.json").write_text(
        f'{{"flows": {{"has_waiting": true, "waiting_since_s": {since}, "reported_at_s": 90.0}}}}'
    )
    assert facts(tmp_path, 100.0)["behind_ms"] == 10_000


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    file = BacklogFile(tmp_path, ALPHA)
    file.record(FLOWS, Polled(has_waiting=True), 100.0)
    assert file.record(FLOWS, Polled(has_waiting=True), 103.0) == 3
