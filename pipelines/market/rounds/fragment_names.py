"""The names of fragments in contracts: FRAGMENT, or NETWORK.FRAGMENT.

The long form is used where a contract uses it or two networks have a fragment of one name. A
fragment has one name at a time, so that it is in one offer only. A contract that names it
otherwise means it all the same, as long as the name can mean no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from medusa_core.errors import Refused
from medusa_core.market.knowledge import ContractInForce
from medusa_core.market.terms import OriginStream
from medusa_core.names import FragmentName, Participant, check_name


@dataclass(frozen=True, slots=True)
class Naming:
    """Names by fragment, as load is metered (NETWORK/FRAGMENT); what moves with nobody has none."""

    names: Mapping[str, FragmentName]
    reads: Mapping[str, frozenset[OriginStream]] = field(default_factory=dict)
    """The streams of other participants that fragments read; none of those that are not here."""

    def of_movable(self, reads: Mapping[str, frozenset[OriginStream]]) -> Naming:
        """The same names, of these fragments alone, with what they read of other participants."""
        return Naming({of: name for of, name in self.names.items() if of in reads}, reads)

    def in_words_of_here(self, contract: ContractInForce) -> ContractInForce:
        """A contract of which this participant is the payer, with the names that are used here of
        all that it lets move; without fragments that read what its provider would not read."""
        named = self._with_names(contract)
        kept = {name for of, name in self.names.items() if self._is_readable(of, contract)}
        if len(kept) == len(self.names):
            return named
        fragments = kept if named.fragments is None else named.fragments & kept
        return replace(named, fragments=frozenset(fragments))

    def _is_readable(self, of: str, contract: ContractInForce) -> bool:
        """Whether the provider reads all that a fragment reads of other participants."""
        foreign = (one for one in self.reads.get(of, ()) if one not in contract.reads)
        return all(one.partition("/")[0] == contract.provider for one in foreign)

    def _with_names(self, contract: ContractInForce) -> ContractInForce:
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
