"""Terms as a contract's file has them: the fields of each kind, and how they become Terms.

A file is given as JSON has it, its decimals as Decimal: an amount is what is written, never a
binary float. It makes the terms of revision 1. The table of fields is the only one: the JSON Schema
for editors is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from medusa_core.market.movement_promises import check_possible
from medusa_core.market.term_rules import (
    AMOUNT,
    AMOUNT_OR_ZERO,
    CURRENCY,
    LENGTH,
    NAME,
    NOTICE,
    REPLICAS,
    SHARE,
    TIME,
    InvalidTerms,
    ListRule,
    Path,
    TermFinding,
    TermRule,
    any_of,
    word_of,
)
from medusa_core.market.terms import (
    BOXES,
    FRAGMENTS,
    READS,
    REFERENCES,
    Availability,
    BillingUnit,
    Content,
    ContractKind,
    LoadUnit,
    Method,
    Movement,
    PriceRange,
    Recovery,
    Subject,
    Suggested,
    Terms,
)
from medusa_core.suggest import did_you_mean, shown

NO_CURRENCY = "XXX"
"""ISO 4217's code where no currency is involved: nothing is owed by a suggestion."""

DAY_MS = 86_400_000
REQUIRED = object()


@dataclass(frozen=True, slots=True)
class ContractField:
    """One field of a file: its title, its rule, and its value where the file does not have it."""

    title: str
    rule: TermRule | ListRule | FieldRule
    default: object = REQUIRED


@dataclass(frozen=True, slots=True)
class FieldRule:
    """The rule of a mapping: its fields, in the order in which a person writes them."""

    write: str
    fields: Mapping[str, ContractField]


KIND = ContractField("the kind of contract", word_of(ContractKind))
_CONTRACT: Mapping[str, ContractField] = {
    "contract": ContractField("the contract's name", NAME),
    "kind": KIND,
    "payer": ContractField("the participant that pays", NAME),
    "provider": ContractField("the participant that is paid", NAME),
}
_VALID = FieldRule(
    "write {from: 2026-01-01T00:00:00Z, until: 2027-01-01T00:00:00Z}",
    {
        "from": ContractField("the first moment", TIME),
        "until": ContractField("the moment at which it ends", TIME),
    },
)
_PERIOD: Mapping[str, ContractField] = {
    "valid": ContractField("from when and until when it is valid", _VALID),
    "settlement": ContractField("the settlement period", LENGTH),
    "notice": ContractField("the notice", NOTICE, 0),
}
_PRICES = FieldRule(
    "write {low: 1.00, high: 1.30, step: 0.10}",
    {
        "low": ContractField("the lowest price", AMOUNT),
        "high": ContractField("the highest price", AMOUNT),
        "step": ContractField("the step between two prices", AMOUNT, None),
    },
)
_AVAILABILITY = FieldRule(
    "write {recovery: precise, method: upstream_backup}",
    {
        "recovery": ContractField("what a failure may do to the results", word_of(Recovery)),
        "method": ContractField("how results are kept through a failure", word_of(Method)),
        "replicas": ContractField("the number of replicas", REPLICAS, 1),
        "bound": ContractField("the availability bound", LENGTH, None),
    },
)
_PROMISE: Mapping[str, ContractField] = {
    "availability": ContractField("what is promised if something fails", _AVAILABILITY),
    "penalty": ContractField("the penalty", AMOUNT_OR_ZERO, Decimal(0)),
    "hold_max": ContractField("the longest hold", LENGTH, 7 * DAY_MS),
}
_CURRENCY: Mapping[str, ContractField] = {"currency": ContractField("the currency", CURRENCY)}
_STREAM: Mapping[str, ContractField] = {"stream": ContractField("the stream", NAME)}

FIELDS: Mapping[ContractKind, Mapping[str, ContractField]] = {
    ContractKind.MOVEMENT: {
        **_CONTRACT,
        **_CURRENCY,
        **_PERIOD,
        "price": ContractField("the range of prices", _PRICES),
        "load_unit": ContractField("the unit of load", word_of(LoadUnit), LoadUnit.CORE),
        "load_max": ContractField("the most load", AMOUNT),
        "moves": ContractField("what may move", FRAGMENTS),
        "reads": ContractField(
            "the streams of third participants that the provider reads", READS, None
        ),
        "reference": ContractField("what load is billed by", REFERENCES, None),
        "verify": ContractField("the share of buckets that the payer recomputes", SHARE, None),
        **_PROMISE,
    },
    ContractKind.CONTENT: {
        **_CONTRACT,
        **_CURRENCY,
        **_PERIOD,
        **_STREAM,
        "price": ContractField("the price", AMOUNT),
        "per": ContractField("what the price is for", word_of(BillingUnit)),
        "boxes": ContractField("the kinds of boxes that the payer may define", BOXES, None),
        "load_max": ContractField("the most load", AMOUNT, None),
        **_PROMISE,
    },
    ContractKind.SUGGESTED: {
        **_CONTRACT,
        "valid": _PERIOD["valid"],
        "notice": _PERIOD["notice"],
        **_STREAM,
        "instead": ContractField("the participant to buy from instead", NAME),
    },
}


def terms_of_file(document: object) -> Terms:
    """The terms of a contract's file; raises InvalidTerms with every field that is not valid.

    Fields that contradict each other are found once each of them is valid by itself.
    """
    if not isinstance(document, dict):
        raise InvalidTerms([TermFinding((), "this is not a contract: begin with contract: NAME")])
    if "kind" not in document:
        says = f"lacks the field kind ({KIND.title}): {KIND.rule.write}"
        raise InvalidTerms([TermFinding((), says)])
    assert isinstance(KIND.rule, TermRule)
    kind = KIND.rule.value_of(("kind",), document["kind"])
    assert isinstance(kind, ContractKind)
    reader = _Reader(kind)
    values = reader.values((), FIELDS[kind], document)
    reader.refuse()
    subject = _subject(kind, reader, values)
    reader.refuse()
    assert subject is not None, "no finding, so a subject"
    return Terms(
        contract=values["contract"],
        number=1,
        supersedes=None,
        payer=values["payer"],
        provider=values["provider"],
        currency=values.get("currency", NO_CURRENCY),
        valid_from_ms=values["valid"]["from"],
        valid_until_ms=values["valid"]["until"],
        settlement_ms=values.get("settlement", DAY_MS),
        notice_ms=values["notice"],
        subject=subject,
    )


class _Reader:
    """Reads a file of one kind, and continues after a field that is not valid."""

    def __init__(self, kind: ContractKind) -> None:
        self._kind = kind
        self._findings: list[TermFinding] = []

    def refuse(self) -> None:
        """Raise InvalidTerms with what was found up to here."""
        if self._findings:
            raise InvalidTerms(self._findings)

    def values(
        self, path: Path, fields: Mapping[str, ContractField], given: Mapping[str, object]
    ) -> dict[str, Any]:
        """The values of a mapping's fields, but for those that are not valid."""
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in given:
                with self.collected():
                    values[name] = self._value((*path, name), field, given[name])
            elif field.default is REQUIRED:
                self._found(path, f"lacks the field {name} ({field.title}): add it")
            else:
                values[name] = field.default
        for name in given:
            if name not in fields:
                self._found((*path, name), self._unknown(path, name, fields))
        return values

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep the findings of InvalidTerms that the block raises."""
        try:
            yield
        except InvalidTerms as error:
            self._findings += error.findings

    def _value(self, path: Path, field: ContractField, given: object) -> object:
        if not isinstance(field.rule, FieldRule):
            return field.rule.value_of(path, given)
        if isinstance(given, dict):
            return self.values(path, field.rule.fields, given)
        says = f"is {shown(given)}: {field.rule.write}"
        raise InvalidTerms([TermFinding(path, says)])

    def _unknown(self, path: Path, name: str, fields: Mapping[str, ContractField]) -> str:
        others = [kind.value for kind in FIELDS if not path and name in FIELDS[kind]]
        if others:
            return (
                f"is for {' and '.join(others)} contracts, and this one is of kind "
                f"{self._kind.value}: remove it"
            )
        return f"is not known here: {did_you_mean(name, fields, f'write {any_of(fields)}')}"

    def _found(self, path: Path, says: str) -> None:
        self._findings.append(TermFinding(path, says))


def _subject(kind: ContractKind, reader: _Reader, values: Mapping[str, Any]) -> Subject | None:
    """The subject of valid fields; None and findings where they contradict each other."""
    if kind is ContractKind.SUGGESTED:
        return Suggested(stream=values["stream"], instead=values["instead"])
    promised, written = values["availability"], values["price"]
    availability: Availability | None = None
    price: PriceRange | None = None
    with reader.collected():
        availability = Availability(
            recovery=promised["recovery"],
            method=promised["method"],
            replicas=promised["replicas"],
            bound_ms=promised["bound"],
        )
    if kind is ContractKind.MOVEMENT:
        with reader.collected():
            price = _price_range(written)
    if availability is None:
        return None
    if kind is ContractKind.CONTENT:
        with reader.collected():
            return Content(
                stream=values["stream"],
                price=written,
                per=values["per"],
                availability=availability,
                penalty=values["penalty"],
                hold_ms_max=values["hold_max"],
                boxes=values["boxes"],
                load_max=values["load_max"],
            )
        return None
    with reader.collected():
        check_possible(availability)
    if price is None:
        return None
    return Movement(
        price=price,
        fragments=values["moves"],
        reads=values["reads"],
        load_unit=values["load_unit"],
        load_max=values["load_max"],
        reference=values["reference"],
        verify=values["verify"],
        availability=availability,
        penalty=values["penalty"],
        hold_ms_max=values["hold_max"],
    )


def _price_range(given: Mapping[str, Any]) -> PriceRange:
    low, high, step = given["low"], given["high"], given["step"]
    if step is None and low != high:
        says = f"lacks the field step ({_PRICES.fields['step'].title}): add it"
        raise InvalidTerms([TermFinding(("price",), says)])
    return PriceRange(low=low, high=high, step=Decimal(1) if step is None else step)
