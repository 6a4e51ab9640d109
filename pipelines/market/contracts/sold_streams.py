"""Promises about sold streams, checked against the deployment of their provider; advice to readers.

The folder of a provider says which participants compute a stream, and its bound. `medusa apply`
refuses a content contract that promises more replicas, active standby without a second participant,
or a shorter bound: nothing would keep the promise. A source has no bound. A provider may advise its
reader to buy a stream from another participant (`instead`). `medusa apply` shows the advice as long
as a network of the reader reads the provider's stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from medusa_core.market.terms import Content, Method, Suggested, Terms, origin_stream
from pipelines.contracts.federation import Federation
from pipelines.contracts.stream_bounds import PlacedFragment
from pipelines.contracts.yaml_values import Value
from pipelines.market.contracts.bilateral_contract import BilateralContract
from pipelines.market.contracts.bilateral_findings import Finding, finding_at


def check_promises(
    contracts: Sequence[BilateralContract], federation: Federation
) -> Iterator[Finding]:
    """What content contracts promise and the deployment of their provider does not keep."""
    placed = {
        stream: fragment
        for fragment in federation.placed_fragments
        for stream in fragment.fragment.outputs
    }
    for contract in contracts:
        subject = contract.terms.subject
        if isinstance(subject, Content) and subject.stream in placed:
            fragment = placed[subject.stream]
            if contract.terms.provider in fragment.owners:
                yield from _not_kept(contract, subject, fragment)


def _not_kept(
    contract: BilateralContract, content: Content, placed: PlacedFragment
) -> Iterator[Finding]:
    promised, owners = content.availability, len(placed.owners)
    whose = f"of stream {content.stream}: {owners} participant{'s' * (owners != 1)} of this folder"
    if promised.method is Method.ACTIVE_STANDBY and owners == 1:
        says = f"is active_standby {whose} computes it: let a second one run its fragment"
        yield finding_at(_place(contract, "method"), says)
    elif promised.replicas > owners:
        says = f"is {promised.replicas} {whose} compute it: let more run its fragment"
        yield finding_at(_place(contract, "replicas"), says)
    declared = placed.promises.get(content.stream)
    bound_ms = None if declared is None or declared.bound is None else declared.bound.bound_ms
    if promised.bound_ms is not None and (bound_ms is None or bound_ms > promised.bound_ms):
        within = "no bound" if bound_ms is None else f"a bound of {bound_ms:,} ms"
        says = (
            f"is {promised.bound_ms:,} ms, and stream {content.stream} answers within {within}: "
            f"declare a bound as short in streams/{content.stream}.yaml"
        )
        yield finding_at(_place(contract, "bound"), says)


def _place(contract: BilateralContract, field: str) -> Value:
    return contract.places.get(f"availability.{field}", contract.places["availability"])


def advice(terms: Sequence[Terms], federation: Federation, now_ms: int) -> Iterator[str]:
    """Where to buy what the networks of the folder read of a partner who advises it."""
    read = {
        source.stream: network.name
        for network in federation.networks
        for source in network.plan.network.sources
        if source.stream is not None and source.writer is not None
    }
    readers = {
        (network.name, owner)
        for network in federation.networks
        for owner in chain.from_iterable(network.owners.values())
    }
    for one in terms:
        if not isinstance(one.subject, Suggested) or not _is_valid(one, now_ms):
            continue
        stream = origin_stream(one.provider, one.subject.stream)
        network = read.get(stream)
        if network is not None and (network, one.payer) in readers:
            other = origin_stream(one.subject.instead, one.subject.stream)
            yield (
                f"{one.provider} advises {one.payer} to read {other} instead of {stream} in "
                f"network {network} (contract {one.contract})"
            )


def _is_valid(terms: Terms, now_ms: int) -> bool:
    return terms.valid_from_ms <= now_ms < terms.valid_until_ms
