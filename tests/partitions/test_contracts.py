"""Under `runs`, a partitioned fragment means its partitions that nobody lists by name, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Participant
from pipelines.contracts.federation import read_federation
from tests.partitions.workers import write_contracts

OTHER = Participant("other")


def owners_of(tmp_path: Path, *listed: str, by_shop: str = "main") -> dict[str, list[str]]:
    """Who computes each fragment, if `other` lists some."""
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    contracts = write_contracts(tmp_path / "contracts", incoming)
    shop = contracts / "participants" / "shop.yaml"
    shop.write_text(shop.read_text().replace("[main]", f"[{by_shop}]"))
    if listed:
        (contracts / "participants" / "other.yaml").write_text(
            "participant: other\nruns:\n  - network: networks/shop.py\n"
            f"    fragments: [{', '.join(listed)}]\n"
        )
    (network,) = read_federation(contracts, tmp_path).networks
    owners = network.owners.items()
    return {of.removeprefix("shop/"): list(by) for of, by in owners if of.startswith("shop/")}


def test_one_who_lists_the_fragment_computes_all_of_its_partitions(tmp_path: Path) -> None:
    names = ("main", "main_p0", "main_p1", "main_p2", "main_p3")
    assert owners_of(tmp_path) == {name: ["shop"] for name in names}


def test_a_partition_that_is_listed_by_name_is_computed_where_it_is_listed(tmp_path: Path) -> None:
    owners = owners_of(tmp_path, "main_p3")
    assert owners["main_p3"] == ["other"]
    assert owners["main"] == owners["main_p0"] == ["shop"]


def test_a_partition_that_two_list_has_replicas(tmp_path: Path) -> None:
    owners = owners_of(tmp_path, "main_p3", by_shop="main, main_p3")
    assert owners["main_p3"] == ["other", "shop"]


def test_a_partition_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="main_p4, but network shop has no such fragment"):
        owners_of(tmp_path, "main_p4")
