"""A what-if from beginning to end: read a home's records, replay them twice, compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from medusa_core.errors import Refused
from medusa_core.loads import WINDOW_MS
from medusa_core.market.documents import document_of, revision_of
from medusa_core.market.estimating import PayerEstimate, ProviderEstimate
from medusa_core.market.knowledge import ContractInForce, contract_in_force
from medusa_core.market.outcomes import LargestChange, Outcome, largest_change
from medusa_core.market.terms import ContractKind, ContractName, Terms
from medusa_core.market.what_if import Partners, replay_both
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import duration
from pipelines.catalog.postgres.books import open_books
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.rounds import open_postgres_rounds
from pipelines.catalog.postgres.what_if import PostgresWhatIf
from pipelines.catalog.round_store import MarketFacts
from pipelines.market.moves.moved_deployments import DeployedFragments, deployed_fragments
from pipelines.market.rounds.fragment_names import Naming, naming_of
from pipelines.market.what_if.edits import Edit, Value
from pipelines.market.what_if.recorded_rounds import check_rounds, recorded_rounds
from pipelines.market.what_if.repriced_bills import RepricedBills, repriced_bills

ANSWERS_MS = 30 * 86_400_000
"""So far back partners' answers are looked at: as long as load is kept, by default."""

OVER_MS_MAX = 7 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """A partner of a contract, and what its part was estimated from."""

    partner: Participant
    provider: ProviderEstimate | None = None
    payer: PayerEstimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The answer: `[from_ms, until_ms)` was replayed, as agreed and with what is changed."""

    participant: Participant
    requested_ms: int
    from_ms: int
    until_ms: int
    currency: str
    threshold: float
    before: Outcome
    after: Outcome
    agreed: Mapping[ContractName, Terms]
    changed: Mapping[ContractName, Terms]
    estimates: Mapping[ContractName, Estimated]
    largest: LargestChange | None

    @property
    def traded(self) -> Mapping[ContractName, Terms]:
        """Every contract that has a part in it, as it would be."""
        return {**self.agreed, **self.changed}


def ask_what_if(
    url: str, participant: Participant, edits: Sequence[Edit], files: Sequence[Terms], over_ms: int
) -> WhatIf | RepricedBills:
    """Replay the last `over_ms` of a home's load with edits and with contracts from files, or price
    the stated periods again if these contracts sell streams.

    Refused as the edits themselves would be, and where nothing is recorded or no cost declared.
    """
    if over_ms > OVER_MS_MAX:
        raise Refused("a what-if looks back over 7 days at most: ask for --over 7d or less")
    home = PostgresWhatIf(url)
    rounds = open_postgres_rounds(url, participant)
    try:
        known = home.agreed()
        agreed = _movements(known)
        changed = _changed(home, participant, known, edits, files)
        if _kind_of(changed) is ContractKind.CONTENT:
            with closing(open_books(url)) as books:
                return repriced_bills(books, participant, known, changed)
        with closing(PostgresCatalog(url, participant)) as catalog:
            deployed = deployed_fragments(catalog)
        return _replayed(home, rounds.read(), deployed, agreed, changed, over_ms)
    finally:
        rounds.close()
        home.close()


def _changed(
    home: PostgresWhatIf,
    participant: Participant,
    agreed: Mapping[ContractName, Terms],
    edits: Sequence[Edit],
    files: Sequence[Terms],
) -> dict[ContractName, Terms]:
    changed: dict[ContractName, Terms] = {}
    for terms in files:
        changed[terms.contract] = home.proposed(document_of(terms))
    of: dict[str, list[Mapping[str, Value]]] = {}
    for edit in edits:
        name = edit.contract or _only(_movements(agreed))
        if name in changed:
            raise Refused(f"contract {name} is edited and in a file: leave one of them out")
        of.setdefault(name, [])
        if edit.changes:
            of[name].append(edit.changes)
    for name, changes in of.items():
        found = home.edited(name, changes)
        if found is None:
            there = ", ".join(sorted(agreed)) or "none"
            hint = did_you_mean(name, agreed, "propose it with INSERT, or ask with --file")
            raise Refused(f"there is no contract {name} in the home of {participant} (there: "
                          f"{there}): {hint}")  # fmt: skip
        changed[ContractName(name)] = found
    return changed


def _kind_of(changed: Mapping[ContractName, Terms]) -> ContractKind:
    """The kind of all that is changed; Refused for kinds that nothing can be said of together."""
    kinds = {terms.kind for terms in changed.values()}
    for name, terms in changed.items():
        if terms.kind is ContractKind.SUGGESTED:
            raise Refused(
                f"contract {name} is of kind {terms.kind.value}: it moves no load and bills nothing"
            )
    if len(kinds) > 1:
        raise Refused(
            "ask about contracts of kind movement and of kind content in separate commands"
        )
    return next(iter(kinds))


def _only(agreed: Mapping[ContractName, Terms]) -> str:
    if len(agreed) != 1:
        there = ", ".join(sorted(agreed)) or "none"
        raise Refused(f"say which contract is edited (there: {there}): write contract NAME SET …")
    return next(iter(agreed))


def _movements(agreed: Mapping[ContractName, Terms]) -> dict[ContractName, Terms]:
    return {name: terms for name, terms in agreed.items() if terms.kind is ContractKind.MOVEMENT}


def _replayed(
    home: PostgresWhatIf,
    facts: MarketFacts,
    deployed: DeployedFragments,
    agreed: Mapping[ContractName, Terms],
    changed: Mapping[ContractName, Terms],
    over_ms: int,
) -> WhatIf:
    declared, until_ms = facts.declared, facts.clock_ms
    if declared is None:
        raise Refused(
            f"what load costs {facts.participant} is not declared, so it would neither offer nor "
            "take anything: declare it in medusa_api.cost first (docs/load.md)"
        )
    check_rounds(over_ms, facts.trading.round_ms)
    since_ms = until_ms - over_ms
    samples = home.loads(since_ms - WINDOW_MS, until_ms)
    first_ms = min((s.from_ms for s in samples if s.to_ms > since_ms), default=None)
    if first_ms is None:
        raise Refused(
            f"no load of {facts.participant} was recorded in the last "
            f"{duration(over_ms * 1_000)}: let it run, or look further back with --over"
        )
    from_ms = max(first_ms, since_ms)
    traded = {**agreed, **changed}
    currency = declared.currency
    words, offers = home.words(until_ms - ANSWERS_MS), home.observed_offers(since_ms)
    estimates: dict[ContractName, Estimated] = {}
    for name, terms in traded.items():
        if terms.payer == facts.participant:
            provider = ProviderEstimate(words.get((terms.provider, terms.currency), ()))
            estimates[name] = Estimated(partner=terms.provider, provider=provider)
        else:
            payer = PayerEstimate(offers.get((name, terms.currency), ()))
            estimates[name] = Estimated(partner=terms.payer, payer=payer)
    counted = {n: e for n, e in estimates.items() if traded[n].currency == currency}
    partners = Partners(
        providers={e.partner: e.provider for e in counted.values() if e.provider is not None},
        payers={name: e.payer for name, e in counted.items() if e.payer is not None},
    )
    here = facts.participant
    as_agreed, as_changed = _in_force(agreed, currency), _in_force(traded, currency)
    parts = {key.fragment for sample in samples for key in sample.shares.by_key}
    # What fragments read is known of those that are deployed now.
    naming = replace(
        naming_of(parts, (*as_agreed, *as_changed), here), reads=deployed.movable(parts)
    )
    before, after = replay_both(
        recorded_rounds(facts, samples, from_ms, until_ms, naming),
        _in_words_of(naming, here, as_agreed),
        _in_words_of(naming, here, as_changed),
        partners,
    )
    return WhatIf(
        participant=facts.participant,
        requested_ms=over_ms,
        from_ms=from_ms,
        until_ms=until_ms,
        currency=currency,
        threshold=declared.threshold,
        before=before,
        after=after,
        agreed=agreed,
        changed=changed,
        estimates=estimates,
        largest=largest_change(before, after),
    )


def _in_words_of(
    naming: Naming, here: Participant, contracts: Iterable[ContractInForce]
) -> tuple[ContractInForce, ...]:
    return tuple(naming.in_words_of_here(c) if c.payer == here else c for c in contracts)


def _in_force(
    contracts: Mapping[ContractName, Terms], currency: str
) -> tuple[ContractInForce, ...]:
    """As decisions need them; those in another currency than the cost are left out, as always."""
    return tuple(
        contract_in_force(terms, revision_of(terms))
        for _, terms in sorted(contracts.items())
        if terms.currency == currency
    )
