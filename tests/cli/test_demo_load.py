"""The demo's scene of load as a user runs it: a fragment moves, is paid for, and is home again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from pipelines.catalog.records import OwnerLine
from pipelines.cli import demo_move_verdict
from pipelines.cli.demo_federation import CONTRACTS
from pipelines.cli.demo_move_homes import MOVING, PAYER, PROVIDER, TEMPLATES
from pipelines.contracts.federation import read_federation
from tests.cli.test_demo import MEDUSA, environment, processes_of
from tests.report.test_move_page import owner
from tests.report.test_page import Seen

SCENE_S_MAX = 900


@pytest.mark.long
def test_load_that_rises_is_carried_by_a_partner_paid_for_and_taken_back(
    server_folder: Path,
) -> None:
    directory = server_folder.parent / "it's here"
    with subprocess.Popen(
        [str(MEDUSA), "demo", "--scene", "load"], env=environment(directory),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as demo:  # fmt: skip
        try:
            told, output = demo.communicate(timeout=SCENE_S_MAX)
        finally:
            if demo.poll() is None:
                os.killpg(demo.pid, signal.SIGINT)
    assert demo.returncode == 0, (told, output)
    assert processes_of(directory) == []
    in_order = (
        r"a spike: alpha logs 20,000 connections a second",
        r"medusa move traffic/main --to beta: move 1, load_of_alpha",
        r"move 1 of traffic/main: released",
        r"the spike ends: 200 connections a second",
        r"move 1 of traffic/main: ended",
        r"alpha computes active_sources again",
        r"beta bills period \d+: \S+ EUR; alpha owes it: settled",
        r"rows +all [\d,]+ are what landed, each once",
        r"owners +one for each bucket: alpha -> beta -> alpha",
        r"statements +equal in both homes, and settled: alpha owes beta 0\.\d+ EUR",
        r"fragment +traffic/main is alpha's again",
    )
    assert re.search(".*".join(in_order), told, re.DOTALL), told
    page = (directory / "demo" / "load.html").read_text(encoding="utf-8")
    words = " ".join(Seen(page).words)
    for shown in ("load of alpha", "load of beta", "spike", "alpha owes beta"):
        assert shown in words
    following = told.partition("What to type next:")[2].splitlines()
    for line in [line for line in following if line.startswith("  ")]:
        ran = subprocess.run(line, shell=True, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


def test_both_participants_of_the_scene_of_load_have_contracts_that_can_be_applied(
    tmp_path: Path,
) -> None:
    networks = {}
    for participant in MOVING.all:
        shutil.copytree(MOVING.templates / participant, tmp_path / participant)
        federation = read_federation(tmp_path / participant / CONTRACTS, tmp_path)
        networks[participant] = {one.name for one in federation.networks}
    assert networks == {PAYER: {"traffic"}, PROVIDER: {"own_traffic"}}
    assert "moves: [main]" in (TEMPLATES / "demo_move_contract.yaml").read_text()


def check_owners(*owners: OwnerLine) -> bool:
    return demo_move_verdict.check_owners(owners).holds


def test_the_verdict_wants_one_owner_for_each_bucket_there_and_back() -> None:
    there, back = owner(1, PROVIDER, 10), owner(2, PAYER, 20)
    assert check_owners(there, back)
    assert not check_owners(there)
    assert not check_owners(back, there)
    assert not check_owners(there, owner(3, PAYER, 20))
    assert not check_owners(there, owner(2, PAYER, 5))


def test_the_verdict_sees_a_row_that_is_wrong_twice_or_missing() -> None:
    expected = {(0, "a"): (3, 2), (0, "b"): (1, 1), (1, "a"): (2, 2)}
    right = [(at, host, *values) for (at, host), values in expected.items()]
    check = demo_move_verdict.check_rows
    assert check(right, expected).holds
    assert check(right[:2], expected).holds, "the last second is not computed yet"
    for wrong in ([], right[1:], [*right, right[0]], [(0, "a", 4, 2), *right[1:]]):
        assert not check(wrong, expected).holds
