"""Bilateral contracts against each other, the participants, and the networks that these run.

Two contracts about the same thing between the same parties, in the same direction, must not be
valid at the same time: a move of a fragment or a sale of a record could not be assigned to one of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from medusa_core.errors import Refused
from medusa_core.market.terms import Content, Movement, Suggested, may_name_same
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import iso
from pipelines.contracts.participants import ParticipantContract
from pipelines.contracts.yaml_values import Value
from pipelines.language.check import check_network, fragments_for
from pipelines.language.load import load_network
from pipelines.market.contracts.bilateral_contract import BilateralContract
from pipelines.market.contracts.bilateral_findings import Finding, finding_at


@dataclass(frozen=True, slots=True)
class _Known:
    """The streams and fragments of all networks that somebody in the folder runs.

    `runners` are those whose networks are known for that; others cannot be checked.
    """

    streams: set[str] = field(default_factory=set)
    fragments: set[str] = field(default_factory=set)
    qualified: set[str] = field(default_factory=set)
    runners: set[Participant] = field(default_factory=set)


def check_across(
    contracts: Sequence[BilateralContract], participants: Sequence[ParticipantContract] | None
) -> Iterator[Finding]:
    """What is wrong with the contracts together; without participants, only the validities."""
    yield from _overlaps(contracts)
    if contracts and participants is not None:
        yield from _parties(contracts, {contract.participant: None for contract in participants})
        known = _Known()
        yield from _learn(known, participants)
        for contract in contracts:
            yield from _subjects(contract, known)


def _overlaps(contracts: Sequence[BilateralContract]) -> Iterator[Finding]:
    """As `medusa_market.check_overlap` refuses it of what is agreed."""
    about: dict[tuple[object, ...], list[BilateralContract]] = {}
    for contract in contracts:
        terms, subject = contract.terms, contract.terms.subject
        what = None if isinstance(subject, Movement) else subject.stream
        about.setdefault((*terms.parties, terms.kind, what), []).append(contract)
    for same in about.values():
        same.sort(key=lambda one: (one.terms.valid_from_ms, one.terms.contract))
        lasting: list[BilateralContract] = []
        for contract in same:
            begins = contract.terms.valid_from_ms
            lasting = [one for one in lasting if one.terms.valid_until_ms > begins]
            others = [one for one in lasting if _is_about_same(contract, one)]
            if others:
                longest = max(others, key=lambda one: one.terms.valid_until_ms)
                yield finding_at(contract.places["valid"], _overlapping(contract, longest))
            lasting.append(contract)


def _is_about_same(contract: BilateralContract, other: BilateralContract) -> bool:
    match contract.terms.subject, other.terms.subject:
        case Movement(fragments=ones), Movement(fragments=others):
            return may_name_same(ones, others)
        case _:
            return True


def _overlapping(contract: BilateralContract, other: BilateralContract) -> str:
    match contract.terms.subject:
        case Movement():
            what = "load"
        case Content(stream=stream) | Suggested(stream=stream):
            what = f"stream {stream}"
    until = iso(other.terms.valid_until_ms * 1_000)
    return (
        f"begins before {other.terms.contract} ends at {until}, which is about {what} between "
        f"{contract.terms.payer} and {contract.terms.provider}, too ({other.at.file}, line "
        f"{other.places['valid'].line}): let one begin when the other has ended"
    )


def _parties(
    contracts: Sequence[BilateralContract], known: Mapping[Participant, None]
) -> Iterator[Finding]:
    for contract in contracts:
        for name in ("payer", "provider", "instead"):
            at = contract.places.get(name)
            if at is not None and at.content not in known:
                hint = did_you_mean(
                    at.content, known, f"write participants/{at.content}.yaml, with its public_key"
                )
                yield finding_at(at, f"is {at.content}, without a contract as participant: {hint}")


def _learn(known: _Known, participants: Sequence[ParticipantContract]) -> Iterator[Finding]:
    networks: dict[str, bool] = {}
    for participant in participants:
        for run in participant.runs:
            if run.network not in networks:
                try:
                    network = load_network(run.network)
                    fragments = fragments_for(check_network(network))
                except Refused as error:
                    yield finding_at(run.network_at, f"cannot be run: {error}")
                    networks[run.network] = False
                    continue
                networks[run.network] = True
                known.streams.update(source.stream_name for source in network.sources)
                known.streams.update(stream for f in fragments for stream in f.outputs)
                known.fragments.update(fragment.name for fragment in fragments)
                known.qualified.update(f"{network.name}.{fragment.name}" for fragment in fragments)
    for participant in participants:
        if participant.runs and all(networks[run.network] for run in participant.runs):
            known.runners.add(participant.participant)


def _subjects(contract: BilateralContract, known: _Known) -> Iterator[Finding]:
    terms = contract.terms
    match terms.subject:
        case Movement(fragments=fragments):
            # A fragment may have been handed to the payer, so any network's will do.
            if fragments is None or terms.payer not in known.runners:
                return
            for at in _items(contract, "moves"):
                if at.content not in known.fragments | known.qualified:
                    names = sorted(known.fragments)
                    hint = did_you_mean(at.content, names, f"there is {', '.join(names)}")
                    yield finding_at(
                        at,
                        f"is {at.content}, a fragment that no network in this folder has: {hint}",
                    )
        case Content(stream=stream):
            if terms.provider in known.runners and stream not in known.streams:
                yield _no_stream(contract, known)
        case Suggested(stream=stream, instead=instead):
            sellers = {terms.provider, instead} & known.runners
            if sellers and stream not in known.streams:
                yield _no_stream(contract, known)


def _no_stream(contract: BilateralContract, known: _Known) -> Finding:
    at, names = contract.places["stream"], sorted(known.streams)
    hint = did_you_mean(at.content, names, f"there is {', '.join(names)}")
    return finding_at(at, f"is {at.content}, a stream that no network in this folder has: {hint}")


def _items(contract: BilateralContract, name: str) -> Iterator[Value]:
    content = contract.places[name].content
    if isinstance(content, tuple):
        yield from content
