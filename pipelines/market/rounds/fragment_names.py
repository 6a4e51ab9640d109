"""The names of fragments in contracts: FRAGMENT, or NETWORK.FRAGMENT.

The long form is used where a contract uses it or two networks have a fragment of one name. A
fragment has one name at a time, so that it is in one offer only. A contract that names it
otherwise means it all the same, as long as the name can mean no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from medusa_core.errors import Refused
from medusa_core.market.knowledge import ContractInForce
from medusa_core.names import FragmentName, Participant, check_name


@dataclass(frozen=True, slots=True)
class Naming:
    """Names by fragment, as load is metered (NETWORK/FRAGMENT); what moves with nobody has none."""

    names: Mapping[str, FragmentName]

    def without(self, fragments: Collection[str]) -> Naming:
        """The same names, of all fragments but these."""
        return Naming({of: name for of, name in self.names.items() if of not in fragments})

    def in_words_of_here(self, contract: ContractInForce) -> ContractInForce:
        """A contract of which this participant is the payer, with the names that are used here of
        all that it lets move."""
        if contract.fragments is None:
            return contract
        networks = Counter(map(_without_network, self.names.values()))
        meant = {
            name
            for name in self.names.values()
            if (part := _without_network(name)) in contract.fragments and networks[part] == 1
        }
        if meant <= contract.fragments:
            return contract
        return replace(contract, fragments=contract.fragments | meant)


def naming_of(
    fragments: Iterable[str], contracts: Iterable[ContractInForce], payer: Participant
) -> Naming:
    """What fragments of the networks here are called under these contracts."""
    parts = {of: name for of in fragments if (name := _name(of)) is not None}
    networks = Counter(parts.values())
    requested = {
        name
        for contract in contracts
        if contract.payer == payer
        for name in contract.fragments or ()
    }
    names: dict[str, FragmentName] = {}
    for of, name in parts.items():
        qualified = FragmentName(f"{of.partition('/')[0]}.{name}")
        names[of] = qualified if networks[name] > 1 or qualified in requested else name
    return Naming(names)


def called(of: str) -> tuple[FragmentName, FragmentName] | None:
    """Both names that a fragment may have had in an offer; None if it has none."""
    name = _name(of)
    return None if name is None else (name, FragmentName(f"{of.partition('/')[0]}.{name}"))


def _name(fragment_id: str) -> FragmentName | None:
    """The name of a network's fragment; None for landing and imports, which move with nobody."""
    network, _, name = fragment_id.partition("/")
    if network in ("landing", "import"):
        return None
    try:
        return FragmentName(check_name("fragment", name or network))
    except Refused:
        return None


def _without_network(name: FragmentName) -> FragmentName:
    return FragmentName(name.rpartition(".")[2])
