"""Contracts may call a fragment by different names, and mean the same."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.market.knowledge import ContractInForce
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import FragmentName, Participant
from pipelines.rounds.naming import naming_of

HOME = Participant("home")


def a_contract(name: str, *fragments: str) -> ContractInForce:
    return ContractInForce(
        name=ContractName(name),
        revision=Revision("a1" * 32),
        payer=HOME,
        provider=Participant("other"),
        prices=(1.0,),
        fragments=frozenset(map(FragmentName, fragments)) if fragments else None,
    )


def test_a_fragment_is_covered_by_each_contract_that_means_it() -> None:
    bare, whole, any_of = a_contract("a", "main"), a_contract("b", "net.main"), a_contract("c")
    naming = naming_of(["net/main", "net/rest", "landing/s"], (bare, whole, any_of), HOME)
    assert naming.names == {"net/main": "net.main", "net/rest": "rest"}
    assert naming.in_words_of_here(bare).fragments == {"main", "net.main"}
    assert naming.in_words_of_here(whole) == whole
    assert naming.in_words_of_here(any_of) == any_of


def test_a_name_that_two_fragments_have_covers_neither() -> None:
    bare, whole = a_contract("a", "main"), a_contract("b", "net.main")
    naming = naming_of(["net/main", "other/main"], (bare, whole), HOME)
    assert set(naming.names.values()) == {"net.main", "other.main"}
    assert naming.in_words_of_here(bare) == bare
    assert naming.in_words_of_here(whole) == whole


def test_what_partners_may_hand_over_says_nothing_about_own_fragments() -> None:
    theirs = replace(a_contract("a", "net.main"), payer=Participant("third"))
    assert naming_of(["net/main"], (theirs,), HOME).names == {"net/main": "main"}
