"""Two participants that run trade by themselves: a contract edited in psql, an offer, an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipelines.homes.home import known_homes, role_url
from tests.agreements.building import INSERT, Login
from tests.federation.building import write_replicated
from tests.federation.processes import Installation, installation, kill
from tests.rounds.building import COST
from tests.waiting import until

OWN_RUN = "participant: {}\nruns:\n  - network: networks/replicated.py\n    {}\n"
STANDS = "SELECT state FROM medusa_api.contract WHERE contract = 'spare_load'"
ANSWERED = """SELECT o.items, o.accepted FROM medusa_api.offers AS o
    WHERE o.is_own AND o.state = 'answered' AND o.accepted > 0"""
TAKEN = "SELECT fragment FROM medusa_api.agreed_moves WHERE NOT is_given"
S_MAX = 240


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Installation]:
    """Alpha lands and counts without end, beta chooses from what alpha has counted."""
    contracts = write_replicated(tmp_path, counting=())
    (contracts / "participants" / "delta.yaml").unlink()
    for name, runs in (
        ("alpha", "sources: [given]\n    fragments: [counting]"),
        ("beta", "fragments: [choosing]"),
    ):
        (contracts / "participants" / f"{name}.yaml").write_text(OWN_RUN.format(name, runs))
    with installation(contracts) as installed:
        yield installed


@pytest.mark.long
def test_two_homes_that_run_agree_on_an_edit_and_answer_each_others_offers(
    two: Installation,
) -> None:
    with ExitStack() as stack:
        owners = {}
        for name in ("alpha", "beta"):
            process = two.start(name)
            stack.callback(kill, process)
        for participant in known_homes(two.folder):
            url = role_url(two.folder, two.server.address, participant, "owner")
            assert "@127.0.0.1:" in url, "over TCP"
            owner = owners[str(participant)] = Login(url)
            stack.callback(owner.connection.close)
            owner("UPDATE medusa_api.trading SET round_ms = 2000")
        # Each owner tells the other's home by which key its own is known.
        own = "SELECT public_key FROM medusa_api.party_keys WHERE participant = %s"
        for name, other in (("alpha", "beta"), ("beta", "alpha")):
            ((key,),) = owners[name](own, name)
            owners[other]("SELECT medusa_api.learn_key(%s, %s)", name, key)
        # What alpha does is far beyond what it says that it can carry; beta has room for all of it.
        owners["alpha"](COST, 0.001, 0.0009)
        owners["beta"](COST, 100, 90)
        for owner in owners.values():
            owner(INSERT.replace("1, 1.20, 0.1, 2,", "1, 1.20, 0.1, 50,"))

        def is_in_force() -> bool:
            return all(owner(STANDS) == [("in force",)] for owner in owners.values())

        until(is_in_force, "the contract is in force in both homes", S_MAX)
        revisions = "SELECT revision, signed_by FROM medusa_api.contract_history"
        # Who has the other's signature tells it on: the histories are alike a moment later.
        until(
            lambda: owners["alpha"](revisions) == owners["beta"](revisions),
            "both homes have the same history",
            S_MAX,
        )
        until(lambda: owners["alpha"](ANSWERED), "an offer of alpha's is accepted", S_MAX)
        assert owners["beta"](TAKEN)[0] == ("counting",)
        for owner in owners.values():
            assert owner("SELECT medusa_market.verify_audit()") == [(None,)]
            # An answer may come when its offer has lapsed: rounds are short here.
            refused = owner("SELECT kind, reason FROM medusa_api.inbox WHERE state = 'refused'")
            assert all("had lapsed" in reason for _, reason in refused), refused
