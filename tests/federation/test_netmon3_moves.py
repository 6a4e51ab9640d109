"""Netmon3 moves from delta to alpha and back, over HTTPS, while its three inputs are landed.

MEDUSA_MOVES says how many times it moves under faults (5 if it says nothing): each time one is
drawn from a seed, a process that is killed or stopped or cut off in one state of the move. Whatever
happens to a move, delta's rows are those of what has landed in three homes, each once, all final,
and each bucket has one owner.
"""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

from medusa_core.market.moves import MoveState
from pipelines.base import clock
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.federation.moving_offices import Participants, a_move, wait_for
from tests.federation.netmon3_offices import LOAD_OF_DELTA, check_netmon3, netmon3, tentative
from tests.federation.test_definitions_of_partners import done
from tests.federation.test_moves_by_contract import check_bills
from tests.sweeps import each_of_part

MOVES = int(os.environ.get("MEDUSA_MOVES") or 5)
SEED = int(os.environ.get("MEDUSA_MOVES_SEED") or 22)
CHECKED_EACH = 10
CASES = each_of_part(("both ways", "a grant ends", "faults"))
OTHERS_TURN = "another turn of make test-long has it"
STATES = (MoveState.ACCEPTED, MoveState.STARTED, MoveState.RELEASED, MoveState.RETURNING)
FAULTS = ("kill", "freeze", "cut")
SUFFER = ("payer", "provider", "beta", "gamma")
WHY_BACK = "SELECT reason FROM medusa_market.move_state WHERE state = 'returning'"
READS_BOTH = """SELECT FROM medusa_api.contract WHERE state = 'in force'
    AND cardinality(reads) = 2 AND 'gamma/connections_c' = ANY (reads)"""
DELAYS = """SELECT extract(epoch FROM committed_at) - to_us / 1e6 FROM medusa.commit
    WHERE fragment = 'monitoring/main' AND committed_at > to_timestamp(:since_s)"""


def delays_s(four: Participants, since_s: float) -> list[float]:
    """Seconds from the end of each step's last bucket to its commit in delta's home."""
    return [float(delay) for (delay,) in four.payer.sql(DELAYS, since_s=since_s)]


def imports_of_provider(four: Participants) -> set[tuple[str, str]]:
    found = four.provider.sql(
        "SELECT p.stream, p.participant FROM medusa.stream_producer AS p JOIN medusa.fragment AS f"
        " ON f.id = 'import/' || p.stream WHERE f.stopped_at IS NULL AND p.participant <> 'alpha'"
    )
    return {(stream, participant) for stream, participant in found}


def computes_again(four: Participants) -> None:
    wait_for("delta computes again", lambda: four.steps[-2:] == ["compute"] * 2)


def moves_and_adopts(four: Participants) -> None:
    """The fragment moves, and delta adopts several buckets of alpha."""
    done(four.payer, "move", "main", "--to", "alpha")
    four.until_state(MoveState.RELEASED)
    adopted = len(four.steps)
    wait_for("rows are adopted", lambda: four.steps[adopted:].count("adopt") >= 5)


def comes_back(four: Participants) -> None:
    done(four.provider, "move", "main", "--back")
    four.until_state(MoveState.ENDED)
    four.until_state(MoveState.ENDED, is_given=False)
    computes_again(four)


@pytest.mark.long
@pytest.mark.skipif("both ways" not in CASES, reason=OTHERS_TURN)
def test_netmon3_moves_to_a_partner_that_reads_its_inputs_at_their_origins(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    without = LOAD_OF_DELTA.replace("gamma/connections_c", "gamma/connections_d")
    with netmon3(postgres_server, tmp_path, without) as four:
        delta, alpha = four.payer, four.provider
        refused = delta.run("move", "main", "--to", "alpha")
        assert refused.returncode == 2
        assert "does not let alpha read gamma/connections_c" in refused.stderr
        for one in (delta, alpha):
            one.sql(
                "UPDATE medusa_api.contract SET reads = '{beta/connections_b,gamma/connections_c}'"
            )
        wait_for("it is in force", lambda: all(one.sql(READS_BOTH) for one in (delta, alpha)))
        moves_and_adopts(four)
        assert four.steps[-1] == "adopt"
        assert imports_of_provider(four) == {
            ("connections_b", "beta"), ("connections_c", "gamma"),
        }  # fmt: skip
        comes_back(four)
        wait_for("alpha imports nothing more", lambda: not imports_of_provider(four))
        check_netmon3(four)
        check_bills(four.payer, four.provider)
        assert tentative(four) == 0


@pytest.mark.long
@pytest.mark.skipif("a grant ends" not in CASES, reason=OTHERS_TURN)
def test_a_move_ends_with_a_grant_of_the_third_participant(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    with netmon3(postgres_server, tmp_path, LOAD_OF_DELTA) as four:
        done(four.payer, "move", "main", "--to", "alpha")
        four.until_state(MoveState.RELEASED)
        (beta, _) = four.origins
        beta.sql("SELECT medusa_api.withdraw_stream('connections_b', 'alpha')")
        four.until_state(MoveState.ENDED)
        ((reason,),) = four.payer.sql(WHY_BACK)
        # The provider ends the move, or the payer does so before, as the provider is late.
        assert re.search("beta does not let alpha read connections_b|[0-9] s behind", reason)
        log = (four.provider.settings.directory / "logs" / "alpha.jsonl").read_text()
        assert "import/connections_b of beta/0" in log
        computes_again(four)
        check_netmon3(four)


@pytest.mark.long
@pytest.mark.skipif("faults" not in CASES, reason=OTHERS_TURN)
@pytest.mark.parametrize("moves", [MOVES])
def test_netmon3_moves_and_comes_back_while_processes_die_stop_and_are_cut_off(
    postgres_server: EmbeddedServer, tmp_path: Path, moves: int
) -> None:
    chance, all_began_s = random.Random(SEED), clock.wall_s()
    latest: dict[str, list[float]] = defaultdict(list)
    with netmon3(postgres_server, tmp_path, LOAD_OF_DELTA) as four:
        for number in range(1, moves + 1):
            state = chance.choice(STATES)
            fault = f"{chance.choice(FAULTS)} {chance.choice(SUFFER)}"
            began_s = clock.wall_s()
            a_move(four, state, partial(four.suffer, fault))
            computes_again(four)
            latest_s = max(delays_s(four, began_s))
            latest[fault].append(latest_s)
            print(
                f"move {number}: {fault} in {state.value}, {clock.wall_s() - began_s:.1f} s; "
                f"the latest bucket {latest_s:.2f} s after its end",
                flush=True,
            )
            if number % CHECKED_EACH == 0:
                check_netmon3(four)
        # Those may have come back before a bucket of theirs was adopted and paid for.
        moves_and_adopts(four)
        comes_back(four)
        print(f"{moves} moves and ways back in {clock.wall_s() - all_began_s:.0f} s")
        for fault, its in sorted(latest.items()):
            print(f"{fault}: {len(its)} times, the latest bucket {max(its):.2f} s after its end")
        check_netmon3(four)
        check_bills(four.payer, four.provider)
        assert tentative(four) == 0, "an input was late, and none was declared to be missing"
