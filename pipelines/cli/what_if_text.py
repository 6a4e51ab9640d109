"""A what-if for people and programs. All figures but the load itself are estimates, and say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medusa_core.decisions import DecisionReason
from medusa_core.market.documents import fields_of
from medusa_core.market.outcomes import ContractOutcome, LargestChange, Outcome
from medusa_core.market.terms import ContractName, Movement, Terms, plain
from medusa_core.names import Participant
from medusa_core.suggest import counted
from pipelines.base.text_table import table
from pipelines.base.time_text import duration, iso
from pipelines.market.what_if.analysis import Estimated, WhatIf
from pipelines.market.what_if.repriced_bills import RepricedBills

COLUMNS = ("", "before", "after", "difference")
NOT_YET = "an estimate: what is billed is reference load, by contract"
"""The first line, so that nobody takes what would have been paid for a bill."""

NOTHING = ContractOutcome()
RECORDED = 0.99
"""Which share of a span is all of it."""


def lines_of(found: WhatIf | RepricedBills) -> list[str]:
    """The answer as text."""
    if isinstance(found, RepricedBills):
        return _bill_lines(found)
    lines = [NOT_YET, *_span(found), *_change_lines(found)]
    lines.append(table(COLUMNS, _rows(found)))
    if found.largest is None:
        lines.append("nothing moves otherwise")
    else:
        lines += _largest(found.largest)
    lines += [_estimate(found, name) for name in sorted(found.estimates)]
    lines += _unseen(found)
    lines.append("nothing was written or sent")
    return lines


def _change_lines(found: WhatIf | RepricedBills) -> Iterator[str]:
    for name in sorted(found.changed):
        changes = _changes(found, name)
        yield from (f"  {name}: {field} {was} -> {to}" for field, was, to in changes)
        if not changes:
            yield f"  {name}: nothing is changed"


def _bill_lines(found: RepricedBills) -> list[str]:
    rows = [
        (
            one.contract, one.period, iso(one.from_ms * 1_000), one.currency,
            plain(one.before), plain(one.after), plain(one.after - one.before),
        )
        for one in found.periods
    ]  # fmt: skip
    return [
        f"the periods that {found.participant} has stated, as they would be priced",
        *_change_lines(found),
        table(("contract", "period", "from", "currency", *COLUMNS[1:]), rows),
        "nothing was written or sent",
    ]


def document_of(found: WhatIf | RepricedBills) -> dict[str, Any]:
    """The answer as data."""
    if isinstance(found, RepricedBills):
        return _bill_document(found)
    largest = found.largest
    return {
        "participant": found.participant,
        "from": iso(found.from_ms * 1_000),
        "to": iso(found.until_ms * 1_000),
        "asked_ms": found.requested_ms,
        "replayed_ms": found.until_ms - found.from_ms,
        "recorded_ms": found.before.recorded_ms,
        "currency": found.currency,
        "threshold": found.threshold,
        "changed": sorted(found.changed),
        "changes": [
            {"contract": name, "field": field, "from": was, "to": to}
            for name in sorted(found.changed)
            for field, was, to in _changes(found, name)
        ],
        "before": _outcome(found, found.before),
        "after": _outcome(found, found.after),
        "difference": _difference(_outcome(found, found.before), _outcome(found, found.after)),
        "largest_change": None
        if largest is None
        else {
            "contract": largest.contract,
            "moves": largest.moves,
            "load_seconds": largest.load_s,
            "is_less": largest.is_less,
            "because": None if largest.because is None else largest.because.reason,
            "numbers": {} if largest.because is None else dict(largest.because.numbers),
        },
        "estimates": [_estimated(found, name) for name in sorted(found.estimates)],
        "notes": [NOT_YET, *_unseen(found)],
    }


def _bill_document(found: RepricedBills) -> dict[str, Any]:
    return {
        "participant": found.participant,
        "changes": [
            {"contract": name, "field": field, "from": was, "to": to}
            for name in sorted(found.changed)
            for field, was, to in _changes(found, name)
        ],
        "periods": [
            {
                "contract": one.contract,
                "period": one.period,
                "from": iso(one.from_ms * 1_000),
                "to": iso(one.to_ms * 1_000),
                "currency": one.currency,
                "before": plain(one.before),
                "after": plain(one.after),
                "difference": plain(one.after - one.before),
            }
            for one in found.periods
        ],
    }


# ---------------------------------------------------------------- the span, the table


def _span(found: WhatIf) -> list[str]:
    replayed_ms, recorded_ms = found.until_ms - found.from_ms, found.before.recorded_ms
    span = f"{_second(found.from_ms)} to {_second(found.until_ms)}"
    lines = [f"{found.participant}'s load of {duration(replayed_ms * 1_000)}, {span}"]
    if replayed_ms < found.requested_ms:
        requested = duration(found.requested_ms * 1_000)
        lines.append(f"  of {requested} asked for: nothing older is recorded")
    if recorded_ms < RECORDED * replayed_ms:
        gaps = duration((replayed_ms - recorded_ms) * 1_000)
        lines.append(f"  {gaps} of it without a record: nothing is reckoned for it")
    return lines


def _second(at_ms: int) -> str:
    return iso(at_ms // 1_000 * 1_000_000)


def _changes(found: WhatIf | RepricedBills, name: ContractName) -> list[tuple[str, object, object]]:
    """What a proposal would change: field, before (None: nothing), after."""
    was = _terms(found.agreed.get(name))
    return [
        (field, was.get(field), to)
        for field, to in _terms(found.changed[name]).items()
        if was.get(field) != to
    ]


def _terms(terms: Terms | None) -> dict[str, object]:
    """The terms as a document has them, without what follows from them."""
    if terms is None:
        return {}
    fields = fields_of(terms)
    fields |= fields.pop("subject")
    fields |= fields.pop("availability")
    follows = ("format", "contract", "number", "supersedes", "kind")
    return {field: value for field, value in fields.items() if field not in follows}


def _rows(found: WhatIf) -> list[Sequence[object]]:
    before, after = found.before, found.after
    rows: list[Sequence[object]] = []
    for name in sorted(found.traded):
        was, would_be = before.contracts.get(name, NOTHING), after.contracts.get(name, NOTHING)
        currency = found.traded[name].currency
        if found.traded[name].payer == found.participant:
            rows += [
                _whole(f"{name}: moves out", was.moves_out, would_be.moves_out),
                _whole(f"{name}: came back", was.moves_back, would_be.moves_back),
                _amount(f"{name}: paid, {currency}", was.paid, would_be.paid),
            ]
        else:
            rows += [
                _whole(f"{name}: moves in", was.moves_in, would_be.moves_in),
                _amount(f"{name}: earned, {currency}", was.earned, would_be.earned),
            ]
    return [
        *rows,
        _amount("overload, load-seconds", before.overload_load_s, after.overload_load_s),
        _amount("overload, % of the time", 100 * before.overload_share, 100 * after.overload_share),
        _amount(f"cost of load, {found.currency}", before.cost, after.cost),
        _amount(f"cost + paid - earned, {found.currency}", before.total, after.total),
    ]


def _whole(what: str, before: int, after: int) -> Sequence[object]:
    return what, f"{before}", f"{after}", f"{after - before}"


def _amount(what: str, before: float, after: float) -> Sequence[object]:
    return what, _shown(before), _shown(after), _shown(after - before)


def _shown(amount: float) -> str:
    return f"{amount + 0.0:.4f}" if round(amount, 4) else "0.0000"


# ---------------------------------------------------------------- why, and from what


def _largest(largest: LargestChange) -> list[str]:
    what = "less" if largest.is_less else "more"
    line = f"largest change: {abs(largest.load_s):.6g} load-seconds {what} under {largest.contract}"
    if largest.because is None:
        return [line]
    when = "before the edit" if largest.is_less else "after the edit"
    return [line, f"  because {when} {_reason(largest.because)}"]


def _reason(because: DecisionReason) -> str:
    numbers = ", ".join(f"{name} {value:.6g}" for name, value in because.numbers.items())
    return f"{because.reason} ({numbers})" if numbers else because.reason


def _estimate(found: WhatIf, name: ContractName) -> str:
    estimate, currency = found.estimates[name], found.traded[name].currency
    if estimate.provider is not None:
        words, last = estimate.provider, estimate.provider.last
        line = f"{estimate.partner} ({name}) is estimated from {counted(words.answers, 'answer')}"
        if words.answers:
            line += f" since {_second(words.words[0].at_ms)}"
        if last is not None:
            line += f", the last at level {last.level} ({last.price:g} {currency})"
        return line if words.answers else f"{line}: nothing is taken"
    assert estimate.payer is not None
    offers = estimate.payer.offers
    line = f"{estimate.partner} ({name}) is estimated from {counted(len(offers), 'offer')}"
    if not offers:
        return f"{line}: nothing is offered"
    return f"{line} since {_second(offers[0].at_ms)}, the last at {offers[-1].price:g} {currency}"


def _unseen(found: WhatIf) -> list[str]:
    """What is not known of partners, so that nothing is expected of it."""
    notes: list[str] = []
    for name, terms in sorted(found.traded.items()):
        if terms.currency != found.currency:
            notes.append(
                f"{name} is in {terms.currency}, and load costs {found.currency}: nothing moves"
            )
            continue
        provider = found.estimates[name].provider
        highest = None if provider is None else provider.highest
        if name in found.changed and highest is not None and _high(terms) > highest:
            notes.append(
                f"{found.estimates[name].partner} was never asked above {highest:g} "
                f"{terms.currency}: no more is expected of it there than at that price"
            )
    return notes


def _high(terms: Terms) -> float:
    assert isinstance(terms.subject, Movement)
    return float(terms.subject.price.high)


# ---------------------------------------------------------------- as data


def _outcome(found: WhatIf, outcome: Outcome) -> dict[str, Any]:
    return {
        "moves": outcome.moves,
        "overload_seconds": outcome.overload_s,
        "overload_load_seconds": outcome.overload_load_s,
        "overload_share": outcome.overload_share,
        "load_seconds": outcome.load_s,
        "home_load_seconds": outcome.home_load_s,
        "cost": outcome.cost,
        "paid": outcome.paid,
        "earned": outcome.earned,
        "total": outcome.total,
        "contracts": {
            name: _contract(outcome.contracts.get(name, NOTHING)) for name in sorted(found.traded)
        },
    }


def _contract(outcome: ContractOutcome) -> dict[str, int | float]:
    return {
        "moves_out": outcome.moves_out,
        "moves_back": outcome.moves_back,
        "moves_in": outcome.moves_in,
        "load_seconds_out": outcome.load_s_out,
        "load_seconds_in": outcome.load_s_in,
        "paid": outcome.paid,
        "earned": outcome.earned,
    }


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field: _difference(was, after[field]) if isinstance(was, Mapping) else after[field] - was
        for field, was in before.items()
    }


def _estimated(found: WhatIf, name: ContractName) -> dict[str, Any]:
    estimate: Estimated = found.estimates[name]
    partner: Participant = estimate.partner
    terms = found.traded[name]
    assert isinstance(terms.subject, Movement)
    document: dict[str, Any] = {
        "contract": name,
        "partner": partner,
        "currency": terms.currency,
        "price_low": plain(terms.subject.price.low),
        "price_high": plain(terms.subject.price.high),
        "is_estimated": True,
        "pays": estimate.provider is not None,
    }
    if estimate.provider is not None:
        words, last = estimate.provider, estimate.provider.last
        return document | {
            "answers": words.answers,
            "silences": len(words.words) - words.answers,
            "since": iso(words.words[0].at_ms * 1_000) if words.words else None,
            "last_level": None if last is None else last.level,
            "last_price": None if last is None else last.price,
            "highest_price": words.highest,
        }
    assert estimate.payer is not None
    offers = estimate.payer.offers
    return document | {
        "offers": len(offers),
        "since": iso(offers[0].at_ms * 1_000) if offers else None,
        "last_price": offers[-1].price if offers else None,
    }
