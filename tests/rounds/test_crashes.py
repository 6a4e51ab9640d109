"""A tick cut short between any two of its numbers is repeated: nothing is lost or done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.base.failpoints import FILE, POINT, ROUND_POINTS, visited_by
from pipelines.base.settings import REPOSITORY
from tests.rounds.building import BETA, Trader, a_price, a_round, agree_on, parts
from tests.sweeps import long_but
from tests.waiting import until


class Killed(BaseException):
    """The program is gone; what it held in memory is, too."""


def prepared(alpha: Trader, beta: Trader) -> None:
    agree_on(alpha, beta, a_price("10"))
    for trader, carried in ((alpha, parts(9)), (beta, parts(3))):
        trader.declares(1.0, 0.9)
        trader.carries(carried)


def check_end(alpha: Trader, beta: Trader) -> None:
    assert [(fragment, state) for _, _, fragment, state in alpha.moves()] == [
        ("f0", "accepted"),
        ("f1", "accepted"),
    ]
    assert [m[2:] for m in alpha.moves()] == [m[2:] for m in beta.moves()]
    assert [state for _, _, _, state, *_ in alpha.offers()] == ["answered"]
    for trader in (alpha, beta):
        assert trader.party.agreements.verify_audit() is None
        assert trader.sql("SELECT count(*) FROM medusa_market.open_offer") == [(0,)]


@pytest.mark.parametrize("point", long_but(1, ROUND_POINTS, quick=True))
def test_a_tick_that_is_cut_short_anywhere_is_repeated(
    alpha: Trader, beta: Trader, point: str
) -> None:
    prepared(alpha, beta)
    killed = 0

    def visit(name: str) -> None:
        nonlocal killed
        if name == point and killed < 2:
            killed += 1
            raise Killed

    with visited_by(visit):
        for trader in (alpha, beta) * 3:
            try:
                trader.answers()
            except Killed:
                trader.restart()
    assert killed == 2
    a_round(alpha, beta)
    check_end(alpha, beta)


PROGRAM = """
import sys
from pathlib import Path
from medusa_core.names import Participant
from pipelines.market.rounds.round_assembly import open_market_worker
from pipelines.operations.agreement_application import FolderTransport
directory, name, url, partner, exchange = sys.argv[1:]
transport = FolderTransport(Participant(name), {partner: exchange}.get)
with open_market_worker(Path(directory), Participant(name), url, transport, print) as worker:
    worker.tick(opens="a test")
"""


@pytest.mark.long(quick=True)
@pytest.mark.parametrize("point", long_but(1, ["round.applied", "round.decided"]))
def test_a_process_that_is_killed_and_started_again_comes_to_the_same_end(
    alpha: Trader, beta: Trader, tmp_path: Path, point: str
) -> None:
    prepared(alpha, beta)
    key = tmp_path / "keys" / "alpha" / "signing_key"
    for folder in (key.parent.parent, key.parent):
        folder.mkdir(mode=0o700)
    key.write_text(f"{alpha.name} 0 {'x' * 32}".encode()[:32].hex())
    key.chmod(0o600)
    announced = tmp_path / "announced"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "alpha", alpha.party.urls.job, BETA,
         beta.party.urls.exchange],
        env=os.environ | {POINT: point, FILE: str(announced)}, cwd=REPOSITORY,
    )  # fmt: skip
    try:
        until(lambda: announced.exists() and announced.read_text() == point, point, 180)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
    alpha.restart()
    a_round(alpha, beta)
    check_end(alpha, beta)
