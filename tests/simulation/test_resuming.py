"""A long run is kept in a file: stopped anywhere, it goes on, and ends with the same figures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from medusa_core.errors import Conflict, Refused
from pipelines.cli.main import main
from pipelines.platform.airflow_components.component_processes import all_processes
from pipelines.simulation.faults import schedule_runs
from pipelines.simulation.faults.run_figures import RunFigures
from pipelines.simulation.faults.schedule_runs import run_on, run_schedules
from pipelines.simulation.faults.schedule_shapes import TRIMS, WHOLE
from pipelines.simulation.progress import progress_in
from tests.sweeps import examples
from tests.waiting import until

SEED = 70_000


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


def stop(done: int) -> None:
    raise Stopped


@pytest.mark.long
@pytest.mark.sweep
def test_a_stopped_run_continues_and_ends_like_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = examples(1, 2)
    all_ = 2 * part + 1
    monkeypatch.setattr(schedule_runs, "SCHEDULES_PER_PART", part)
    file = tmp_path / "deep" / "run.json"
    with progress_in(file, SEED, TRIMS) as progress, pytest.raises(Stopped):
        run_on(progress, all_, 1, stop)
    begun: list[int] = []
    with progress_in(file, SEED, TRIMS) as progress:
        assert progress.done == [(SEED, SEED + part)]
        figures = run_on(progress, all_, 1, begun.append)
    assert begun == [2 * part, all_]
    assert figures.document() == run_schedules(all_, SEED, shape=TRIMS).document()
    with progress_in(file, SEED, TRIMS) as progress:
        assert run_on(progress, all_, 1, stop).document() == figures.document()


@cache
def one_part(first: int = SEED) -> RunFigures:
    """The figures of one schedule; nobody changes them."""
    return schedule_runs.run_part((first, 1), TRIMS)


@pytest.mark.long
def test_parts_that_come_in_any_order_are_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    parts = {first: one_part(first) for first in (SEED, SEED + 1, SEED + 2)}
    with progress_in(file, SEED, TRIMS) as progress:
        for first in (SEED + 2, SEED):
            progress.add(first, parts[first], "code")
    with progress_in(file, SEED, TRIMS) as progress:
        assert progress.done == [(SEED, SEED + 1), (SEED + 2, SEED + 3)]
        assert [progress.is_done(SEED + at) for at in range(4)] == [True, False, True, False]
        progress.add(SEED + 1, parts[SEED + 1], "other code")
        assert progress.done == [(SEED, SEED + 3)]
        assert progress.codes == {"code": 2, "other code": 1}
        assert progress.figures.schedules == 3


def test_two_runs_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    with (
        progress_in(file, SEED, WHOLE),
        pytest.raises(Conflict, match="another run"),
        progress_in(file, SEED, WHOLE),
    ):
        pass


@pytest.mark.long
def test_the_file_of_another_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    with progress_in(file, SEED, TRIMS) as progress:
        progress.add(SEED, one_part(), "code")
    for seed, shape in ((SEED + 1, TRIMS), (SEED, WHOLE)):
        with (
            pytest.raises(Refused, match=f"from seed {SEED} with --trims"),
            progress_in(file, seed, shape),
        ):
            pass


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100_000,
        lambda text: text.replace('"trims"', '"other"'),
        lambda text: text.replace(f"[{SEED}, ", f"[{SEED - 1}, "),
        lambda text: text.replace('"schedules": 1', '"schedules": true'),
        lambda text: json.dumps({**json.loads(text), "violations": [[1]]}),
        lambda text: "null",
    ],
)
def test_a_file_that_was_spoilt_is_refused_and_left_as_it_is(tmp_path: Path, spoil: object) -> None:
    file = tmp_path / "run.json"
    with progress_in(file, SEED, TRIMS) as progress:
        progress.add(SEED, one_part(), "code")
    spoilt = spoil(file.read_text())  # type: ignore[operator]
    file.write_text(spoilt)
    with pytest.raises(Refused, match="not what a run"), progress_in(file, SEED, TRIMS):
        pass
    assert file.read_text() == spoilt


def test_the_command_continues_and_prints_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a run.json"
    command = ["simulate", "faults", "--trims", "--seed", str(SEED), "--jobs", "1",
               "--resume", str(file), "--schedules"]  # fmt: skip
    assert main([*command, "1"]) == 0
    capsys.readouterr()
    assert main([*command, "2"]) == 0
    output = capsys.readouterr()
    assert "continues: 1 schedules were done before" in output.err
    assert "2 schedules from seed" in output.out
    assert main([*command, "2", "--explain"]) == 2
    assert "--explain" in capsys.readouterr().err


@pytest.mark.long
def test_an_interrupt_ends_every_process_of_a_run_where_it_is(tmp_path: Path) -> None:
    medusa = Path(sys.executable).with_name("medusa")
    words = [medusa, "simulate", "faults", "--schedules", "100000", "--jobs", "2"]
    words += ["--resume", tmp_path / "kept.json"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as run:
        until(lambda: (tmp_path / "kept.json").exists(), "a part is done", 120)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)
    assert run.returncode == 130, output
    # What Python starts beside its workers ends once the last of them has closed its pipe.
    until(
        lambda: not [one for one in all_processes() if one.session == run.pid],
        "every process of the run has ended",
    )
