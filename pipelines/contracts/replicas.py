"""Replication in streams' contracts: how many producers there are, and how many must agree.

`replicas: n` requires that at least n participants compute the stream, so that one of them may
fail; `verify: n` that a reader takes a row as final only when n of them have the same. Both are
checked against the participants that list the stream's fragment; sources have one lander and
accept neither. A home that reads a stream of several producers does not follow a revision of one of
them, so that no source from which such a stream is computed may make revisions by itself: not even
where no home of these contracts reads the stream, since one of other contracts may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from medusa_core.network import REVISE_LATE, Source
from medusa_core.suggest import counted
from pipelines.base.time_text import duration
from pipelines.contracts.fields import listing
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.streams import StreamContract

RESTART_MS = 11_000
"""How long a participant that was killed and is started again keeps others waiting for its next
step: Spark started cold, on a quiet machine, as `python -m bench recovery` measures it."""


def check_replicas(
    networks: Sequence[PlacedNetwork],
    contracts: Sequence[StreamContract],
    participants: Sequence[Participant],
) -> None:
    """Refused, naming file, line and field, if there are fewer participants than it requires."""
    placed = {record.name: network for network in networks for record in network.streams}
    for contract in contracts:
        network = placed[contract.stream]
        writers = network.writers_of(contract.stream)
        fragment = network.fragment_of(contract.stream)
        for field in (contract.replicas, contract.verify):
            if field is not None and fragment is None:
                is_imported = network.plan.network.is_imported
                what = (
                    "a partner writes" if is_imported else "is a source: one participant lands it"
                )
                raise field.at.refused(
                    f"is declared for {contract.stream}, which {what} ({listing(writers)}); "
                    "declare it for what is computed from it"
                )
        if contract.replicas is not None:
            _check_count(contract, writers, f"fragment {fragment}", participants)
        if contract.verify is not None and contract.verify.count > len(writers):
            raise contract.verify.at.refused(
                f"is {contract.verify.count}, and {counted(len(writers), 'participant')} can agree "
                f"on {contract.stream} ({listing(writers)}): write a number from 1 to "
                f"{len(writers)}, or list fragment {fragment} under runs of more"
            )


def check_late(networks: Sequence[PlacedNetwork]) -> None:
    """Refused for a source that admits its late records as revisions, if a stream that is computed
    from it has several producers: a reader, here or elsewhere, would not follow these revisions."""
    for network in networks:
        for source in network.plan.network.sources:
            if source.is_landed and source.late == REVISE_LATE:
                _check_followed(networks, network, source)


def _check_followed(
    networks: Sequence[PlacedNetwork], network: PlacedNetwork, source: Source
) -> None:
    todo, seen = [source.stream_name], set[StreamName]()
    while todo:
        stream = todo.pop()
        for of in networks:
            for fragment, (reads, gives) in of.wiring.items():
                if stream not in reads:
                    continue
                writers = of.owners.get(fragment, ())
                if gives and len(writers) > 1:
                    raise Refused(
                        f"source {source.name} of network {network.name} has late='revise', and "
                        f"{listing(writers)} compute {listing(gives)} from it: a home that reads a "
                        "stream of several producers, now or later, does not follow their "
                        "revisions, so such a stream has none; write "
                        f"late='quarantine', or list fragment {fragment} under runs of one "
                        "participant"
                    )
                todo += [name for name in gives if name not in seen]
                seen.update(gives)


def _check_count(
    contract: StreamContract,
    writers: Sequence[Participant],
    fragment: str,
    participants: Sequence[Participant],
) -> None:
    declared = contract.replicas
    assert declared is not None, "the caller has looked"
    if declared.count == 1 and len(writers) > 1:
        raise declared.at.refused(
            f"is 1, and {counted(len(writers), 'participant')} list {fragment}, which computes "
            f"{contract.stream} ({listing(writers)}): write replicas: {len(writers)}, or take it "
            "away from the others before it is applied"
        )
    if declared.count > len(writers):
        others = [name for name in participants if name not in writers]
        there = (
            f" (there is {listing(others)})" if others else ", whose contracts are to be written"
        )
        raise declared.at.refused(
            f"is {declared.count}, and {counted(len(writers), 'participant')} "
            f"{'lists' if len(writers) == 1 else 'list'} {fragment}, which computes "
            f"{contract.stream} ({listing(writers)}): list it under runs of others, too{there}, or "
            f"write replicas: {len(writers)}"
        )


def warnings_of(
    networks: Sequence[PlacedNetwork],
    contracts: Sequence[StreamContract],
    participants: Sequence[Participant],
) -> Iterator[str]:
    """What the contracts promise and cannot keep by themselves; nothing of it is refused."""
    placed = {record.name: network for network in networks for record in network.streams}
    for contract in contracts:
        network, stream = placed[contract.stream], contract.stream
        writers = network.writers_of(stream)
        bound = contract.bound
        if bound is not None and bound.bound_ms < RESTART_MS and len(writers) == 1:
            yield (
                f"stream {stream} is promised within {duration(bound.bound_ms * 1_000)}, and "
                f"{writers[0]}, which alone computes it, takes about "
                f"{duration(RESTART_MS * 1_000)} to come back after a crash: list fragment "
                f"{network.fragment_of(stream)} under runs of a second participant, and write "
                "replicas: 2"
            )
        if stream in network.verified and not _readers(network, stream, participants):
            yield (
                f"verify: {network.verified[stream]} of {stream} has no effect: its readers count "
                "who agrees, and no participant reads it"
            )


def _readers(
    network: PlacedNetwork, stream: StreamName, participants: Sequence[Participant]
) -> list[Participant]:
    return [name for name in participants if stream in network.chosen_by(name)]
