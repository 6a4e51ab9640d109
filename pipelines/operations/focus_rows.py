"""The charges of a statement in the columns of FOCUS, a specification of cost and usage rows."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from medusa_core.market.bill_statements import Charge, ChargeKind, Statement, statement_id
from medusa_core.market.money import hours_of
from medusa_core.market.terms import plain
from pipelines.base.time_text import iso

COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd",
    "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodStart",
    "ChargePeriodEnd", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
    "ResourceId", "ServiceCategory", "ServiceName", "SkuId",
)  # fmt: skip
_CATEGORIES = {
    ChargeKind.RECORDS: "Usage",
    ChargeKind.LOAD: "Usage",
    ChargeKind.PERIOD: "Purchase",
    ChargeKind.CORRECTION: "Adjustment",
    ChargeKind.PENALTY: "Credit",
    ChargeKind.SAMPLE: "Adjustment",
}
_UNITS = {
    ChargeKind.RECORDS: "Records",
    ChargeKind.LOAD: "Core-Hours",
    ChargeKind.PERIOD: "Periods",
    ChargeKind.CORRECTION: "Records",
    ChargeKind.PENALTY: "Violations",
    ChargeKind.SAMPLE: "Buckets",
}


def focus_rows(statement: Statement) -> Iterator[dict[str, str]]:
    """A row for each charge; the payer is the billing account, the provider issues the invoice."""
    for charge in statement.charges:
        yield _row(statement, charge)


def _row(statement: Statement, charge: Charge) -> dict[str, str]:
    cost, price = plain(charge.amount), plain(charge.price)
    quantity = plain(_quantity(charge))
    unit, is_usage = _UNITS[charge.kind], _CATEGORIES[charge.kind] == "Usage"
    return {
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ContractedCost": cost,
        "ListCost": cost,
        "BillingAccountId": statement.payer,
        "BillingCurrency": statement.currency,
        "BillingPeriodStart": iso(statement.from_ms * 1_000),
        "BillingPeriodEnd": iso(statement.to_ms * 1_000),
        "ChargeCategory": _CATEGORIES[charge.kind],
        "ChargeClass": "Correction" if charge.kind is ChargeKind.CORRECTION else "",
        "ChargeDescription": f"{charge.kind.value} of {charge.subject}, period {charge.period}",
        "ChargeFrequency": "Recurring" if charge.kind is ChargeKind.PERIOD else "Usage-Based",
        "ChargePeriodStart": iso(charge.from_us),
        "ChargePeriodEnd": iso(charge.to_us),
        "ConsumedQuantity": quantity if is_usage else "",
        "ConsumedUnit": unit if is_usage else "",
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "InvoiceId": statement_id(statement),
        "InvoiceIssuerName": statement.provider,
        "ProviderName": statement.provider,
        "PublisherName": statement.provider,
        "ResourceId": charge.subject,
        "ServiceCategory": "Analytics",
        "ServiceName": "Medusa load" if "/" in charge.subject else "Medusa stream",
        "SkuId": f"{statement.contract}/{charge.kind.value}",
    }


def _quantity(charge: Charge) -> Decimal:
    """In units of the price: a statement has load in seconds, and its price is for an hour."""
    return hours_of(charge.quantity) if charge.kind is ChargeKind.LOAD else charge.quantity
