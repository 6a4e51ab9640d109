"""The demo as a user runs it: its end, its check, what it leaves alone, and Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medusa_core.errors import Conflict
from pipelines.cli.demo_federation import ALL, COMPUTES, CONTRACTS, TEMPLATES
from pipelines.cli.demo_folder import MARK
from pipelines.cli.main import main
from pipelines.contracts.federation import read_federation
from pipelines.contracts.participants import read_participants
from pipelines.contracts.public_keys import public_key_text
from pipelines.report.recount import recount
from pipelines.sources.generated_files import write_generated
from tests.cli.kept import Kept
from tests.sweeps import examples
from tests.waiting import until

RECORDS = examples(6_000, 20_000)
MEDUSA = Path(sys.executable).with_name("medusa")


def environment(directory: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "MEDUSA_CATALOG_URL"}
    return {**kept, "MEDUSA_DIR": str(directory)}


def processes_of(directory: Path) -> list[str]:
    """Command lines of living processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in words:
            found.append(words)
    return found


@pytest.mark.long
@pytest.mark.sweep
def test_the_demo_ends_with_a_checked_answer_a_report_and_commands_that_work(
    server_folder: Path,
) -> None:
    directory = server_folder.parent / "it's here"
    command = [str(MEDUSA), "demo", "--scene", "replay", "--records", str(RECORDS)]
    for again in range(examples(1, 2)):  # the second replaces the home of the first
        done = subprocess.run(command, env=environment(directory), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "equal to DuckDB, row for row" in done.stdout, again
        assert "WARN" not in done.stderr
        assert (directory / "demo" / "report.html").stat().st_size < 2_000_000
        assert processes_of(directory) == []
    output = done.stdout.partition("What to type next:")[2].splitlines()
    following = [line for line in output if line.startswith("  ")]
    assert len(following) >= 3
    for line in following[: examples(1, len(following))]:
        ran = subprocess.run(line, shell=True, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    assert processes_of(directory) == []
    table = re.search(rf"records in +{RECORDS:,} ", done.stdout)
    assert table is not None


@pytest.mark.long
def test_ctrl_c_ends_every_process_and_says_so(server_folder: Path) -> None:
    directory = server_folder.parent / "interrupted"
    with subprocess.Popen(
        [str(MEDUSA), "demo", "--scene", "replay"], env=environment(directory),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as demo:  # fmt: skip
        until(lambda: any("java" in p for p in processes_of(directory)), "Java runs", 120)
        os.killpg(demo.pid, signal.SIGINT)
        _, output = demo.communicate(timeout=120)
    assert demo.returncode == 130
    assert "no process is left" in output
    assert processes_of(directory) == []


def test_a_folder_that_no_demo_made_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    mine = tmp_path / "demo" / "home" / "diary.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("dear diary")
    assert main(["demo"]) == 2
    assert "what no demo made" in capsys.readouterr().err
    assert mine.read_text() == "dear diary"


def test_two_demos_at_once_are_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    (tmp_path / "demo").mkdir()
    with (tmp_path / "demo" / MARK).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(["demo"]) == Conflict.exit_code
    assert "another demo" in capsys.readouterr().err


def test_each_participant_of_the_demo_has_contracts_that_know_the_others_as_partners(
    tmp_path: Path,
) -> None:
    for owner in ALL:
        shutil.copytree(TEMPLATES / owner, tmp_path / owner)
        contracts = tmp_path / owner / CONTRACTS
        assert [one.participant for one in read_participants(contracts)] == [owner]
        for partner in set(ALL) - {owner}:
            key = public_key_text(bytes(32))
            text = f"participant: {partner}\npublic_key: {key}\n"
            (contracts / "participants" / f"{partner}.yaml").write_text(text)
        federation = read_federation(contracts, tmp_path)
        imported = {one.name for one in federation.networks if one.plan.network.is_imported}
        read = {"beta/connections_b", "gamma/connections_c"} if owner == COMPUTES else set()
        assert imported == read
        granted = {grant.partner for grant in federation.grants_of(owner)}
        assert granted == (set() if owner == COMPUTES else {COMPUTES})


@pytest.mark.long
def test_the_recount_sees_a_row_that_is_wrong_twice_or_missing(
    netmon_kept: Kept, tmp_path: Path
) -> None:
    pytest.importorskip("duckdb")
    inputs = write_generated(tmp_path, seed=3, records=6_000, files=2, format="csv")
    right = recount(inputs, netmon_kept.outputs)
    assert [c.output for c in right] == ["busy_sources", "scanning_sources", "scanning_prefixes"]
    assert all(c.differing == 0 and c.rows == c.rows_recounted > 0 for c in right)
    header, first, *rest = netmon_kept.outputs["busy_sources"].read_text().splitlines()
    spoiled = {
        "missing": [header, *rest],
        "twice": [header, first, first, *rest],
        "changed": [header, first + "0", *rest],
    }
    expected = {"missing": 1, "twice": 1, "changed": 2}
    for name, lines in spoiled.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n")
        busy = recount(inputs, {**netmon_kept.outputs, "busy_sources": path})[0]
        assert busy.differing == expected[name]
