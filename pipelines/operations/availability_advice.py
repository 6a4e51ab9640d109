"""Advice about the availability of a network's fragments: costs and recoveries, and the cheapest.

Everything is read from one home; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from medusa_core.availability.measured_figures import Figure, FragmentFigures
from medusa_core.availability.methods import STRENGTH
from medusa_core.availability.recommendation import (
    Advice,
    AvailabilityPromise,
    ResourcePrices,
    advice_for,
)
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.loads import load_of
from medusa_core.market.terms import Availability, Content, Movement, Recovery, Terms, is_named
from medusa_core.names import FragmentName, Participant, StreamName
from medusa_core.suggest import did_you_mean
from medusa_core.trims import PROGRESS
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.homes.deployed_fragments import fragments_in_force, networks_in_force
from pipelines.homes.home import chosen_participant, home_server
from pipelines.watching.fragment_figures import fragment_figures, home_figures, newest

NO_CURRENCY = "units of money"
CORE_HOUR, GIB_SENT, GIB_HOUR = 0.04, 0.02, 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRequest:
    """Which network of whose home; the promise, prices and takeover time that are not None take
    the place of what the home knows."""

    network: str
    participant: str | None = None
    bound_ms: float | None = None
    recovery: Recovery | None = None
    takeover_ms: float | None = None
    core_hour: float | None = None
    gib_sent: float | None = None
    gib_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAdvice:
    """The advice for each fragment of a network, by the prices of the home."""

    participant: Participant
    network: str
    currency: str
    prices: ResourcePrices
    fragments: tuple[Advice, ...]


def advise(settings: Settings, request: AdviceRequest) -> NetworkAdvice:
    """Refused for a network of which the participant computes no fragment."""
    here = chosen_participant(settings, request.participant)
    with home_server(settings, here) as server:
        url = server.login_url("job")
        with closing(PostgresAgreements(url, here)) as agreements:
            agreed = tuple(contract.terms for contract in agreements.in_force())
        with closing(PostgresCatalog(url, here)) as catalog:
            return advice_of(catalog, agreed, request)


def advice_of(
    catalog: PostgresCatalog, agreed: Iterable[Terms], request: AdviceRequest
) -> NetworkAdvice:
    """The advice from an open home and the contracts in force."""
    here = catalog.participant
    fragments = _fragments(catalog, request.network)
    currency, prices = _prices(catalog, request)
    promises = {
        fragment.home_id: _promise(catalog, fragment, tuple(agreed), request)
        for fragment in fragments
    }
    return NetworkAdvice(
        participant=here,
        network=request.network,
        currency=currency,
        prices=prices,
        fragments=tuple(
            advice_for(figures, promises[figures.fragment], prices)
            for figures in measured(catalog, fragments, request.takeover_ms)
        ),
    )


def measured(
    catalog: PostgresCatalog, fragments: Iterable[Fragment], takeover_ms: float | None
) -> Iterator[FragmentFigures]:
    """The figures of fragments of a home."""
    of = home_figures(catalog, catalog.lines(), takeover_ms)
    for fragment in fragments:
        names = (*fragment.input_streams, *fragment.outputs)
        segments = {
            name: catalog.segments(name, part, producer=of.lines[name].producer)
            for name in names
            if name in of.lines and (part := newest(of.lines[name])) is not None
        }
        yield fragment_figures(fragment, of, segments, _held_us(catalog, fragment))


def _held_us(catalog: PostgresCatalog, fragment: Fragment) -> Mapping[StreamName, int]:
    """From where on a reader, other than this home's own steps, holds each output."""
    found = {
        name: [hold.from_us for hold in catalog.holds(name) if hold.purpose != PROGRESS]
        for name in fragment.outputs
    }
    return {name: min(held) for name, held in found.items() if held}


def _fragments(catalog: PostgresCatalog, network: str) -> list[Fragment]:
    here = catalog.participant
    own = {a.fragment for a in catalog.assignments() if a.producer.participant == here}
    networks = networks_in_force(catalog)
    known = fragments_in_force(catalog)
    found = [known[name] for name in sorted(known) if name in own and networks[name] == network]
    if not found:
        names = sorted({str(networks[name]) for name in known if name in own})
        hint = did_you_mean(network, names, f"it computes {', '.join(names) or 'nothing'}")
        raise Refused(f"{here} computes no fragment of network {network!r}: {hint}")
    return found


def _prices(catalog: PostgresCatalog, request: AdviceRequest) -> tuple[str, ResourcePrices]:
    """Prices as given, of a core as the owner has declared what load costs, or as assumed."""
    declared = catalog.declared_cost()
    if declared is None:
        currency = NO_CURRENCY
        core = Figure(CORE_HOUR, "no cost of load is declared (docs/load.md)")
    else:
        load = load_of(catalog.loads_since(), catalog.read_clock_ms())
        currency = declared.currency
        core = Figure(declared.cost.slope(0.0 if load is None else load.carried))
    return currency, ResourcePrices(
        core_hour=core if request.core_hour is None else Figure(request.core_hour),
        gib_sent=_price(request.gib_sent, GIB_SENT, "no price of a sent GiB is given: --gib-sent"),
        gib_hour=_price(request.gib_hour, GIB_HOUR, "no price of a kept GiB is given: --gib-hour"),
    )


def _price(given: float | None, assumed: float, assumption: str) -> Figure:
    return Figure(assumed, assumption) if given is None else Figure(given)


def _promise(
    catalog: PostgresCatalog, fragment: Fragment, agreed: Iterable[Terms], request: AdviceRequest
) -> AvailabilityPromise:
    """The strictest of what contracts and declared bounds promise, or what was requested."""
    found = [
        (availability.recovery, availability.bound_ms, f"contract {terms.contract}")
        for terms in agreed
        if (availability := _availability(terms, fragment, catalog.participant)) is not None
    ]
    declared = catalog.bounds()
    for name in fragment.outputs:
        bound, _ = declared.get(name, (None, 0))
        if bound is not None:
            found.append((Recovery.ROLLBACK, bound.bound_ms, f"the bound of {name}"))
    recovery = max((r for r, _, _ in found), key=STRENGTH.__getitem__, default=Recovery.PRECISE)
    bounds = [bound_ms for _, bound_ms, _ in found if bound_ms is not None]
    sources = [source for _, _, source in found] or ["nothing is promised: no row is lost"]
    if request.recovery is not None or request.bound_ms is not None:
        sources.append("as requested")
    return AvailabilityPromise(
        recovery if request.recovery is None else request.recovery,
        min(bounds, default=None) if request.bound_ms is None else request.bound_ms,
        ", ".join(sources),
    )


def _availability(terms: Terms, fragment: Fragment, here: Participant) -> Availability | None:
    """What a contract promises of a fragment: to its payer who may move it, by its seller."""
    match terms.subject:
        case Movement() as movement if terms.payer == here:
            name = FragmentName(fragment.home_id.replace("/", "."))
            if movement.fragments is None or is_named(name, movement.fragments):
                return movement.availability
        case Content() as content if terms.provider == here:
            if content.stream in fragment.outputs:
                return content.availability
    return None
