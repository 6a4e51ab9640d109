"""The contracts that ship: each owner has a folder that knows the others as partners alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from pipelines.contracts.federation import read_federation, read_homes
from pipelines.contracts.home_snapshot import READERS, Grant
from pipelines.contracts.participants import read_participants
from pipelines.market.contracts.bilateral import read_bilateral
from tests.contracts.shipped import CONTRACTS, OWNERS, SITES, joined

LANDED = {"alpha": "connections_a", "beta": "connections_b", "gamma": "connections_c"}


@pytest.mark.parametrize("owner", OWNERS)
def test_an_owners_folder_has_the_owners_participant_and_no_other(owner: str) -> None:
    assert [one.participant for one in read_participants(CONTRACTS / owner)] == [owner]
    assert [one.participant for one in read_homes(CONTRACTS / owner).participants] == [owner]


@pytest.mark.parametrize("owner", OWNERS)
def test_an_owners_contracts_are_right_once_its_partners_have_joined_and_not_before(
    owner: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=r"(has no|without a) contract as participant"):
        read_federation(CONTRACTS / owner, tmp_path)
    folder = joined(owner, tmp_path / "contracts")
    federation = read_federation(folder, tmp_path)
    terms = [one.terms for one in read_bilateral(folder, federation.participants)]
    assert all(owner in one.parties for one in terms)


@pytest.mark.parametrize("owner", LANDED)
def test_who_lands_a_stream_grants_it_to_delta(owner: str, tmp_path: Path) -> None:
    federation = read_federation(joined(owner, tmp_path / "contracts"), tmp_path)
    grant = Grant(StreamName(LANDED[owner]), Participant("delta"), READERS)
    assert federation.grants_of(Participant(owner)) == {grant}


def test_delta_reads_all_that_is_granted_to_it(tmp_path: Path) -> None:
    federation = read_federation(joined("delta", tmp_path / "contracts"), tmp_path)
    imported = {one.name for one in federation.networks if one.plan.network.is_imported}
    assert imported == {f"{owner}/{stream}" for owner, stream in LANDED.items()}


def test_both_parties_of_a_contract_have_the_same_file() -> None:
    files: dict[str, set[bytes]] = {}
    parties: dict[str, set[str]] = {}
    for path in CONTRACTS.glob("*/bilateral/*.yaml"):
        files.setdefault(path.stem, set()).add(path.read_bytes())
        parties.setdefault(path.stem, set()).add(path.parent.parent.name)
    assert {name: len(texts) for name, texts in files.items()} == dict.fromkeys(files, 1)
    assert parties == {
        "delta_to_alpha": {"alpha", "delta"},
        "connections_b_for_delta": {"beta", "delta"},
    }


def test_the_sites_of_one_owner_share_a_folder(tmp_path: Path) -> None:
    federation = read_federation(SITES, tmp_path)
    assert len(federation.participants) == 4
    assert [one.name for one in federation.networks] == ["netmon3"]


def test_the_folder_of_all_owners_is_none_to_apply() -> None:
    with pytest.raises(Refused, match=r"one owner \(alpha, beta, delta, gamma, sites\)$"):
        read_homes(CONTRACTS)
