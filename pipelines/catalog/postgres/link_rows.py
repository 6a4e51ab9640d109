"""Links with partners as the database gives and takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields

from sqlalchemy import RowMapping

from medusa_core.names import Participant
from pipelines.catalog.partner_records import (
    LinkReport,
    LinkSide,
    LinkState,
    LinkStatus,
    PartnerLinks,
)

REPORTED = tuple(field.name for field in fields(LinkReport))


def reports_document(reports: Iterable[LinkReport]) -> str:
    """The argument of medusa_market.report_links."""
    return json.dumps([{**asdict(one), "state": one.state.value} for one in reports])


def partner_links(rows: Iterable[RowMapping]) -> tuple[PartnerLinks, ...]:
    """The links of the rows of the query `links`, in their order."""
    found: dict[Participant, dict[LinkSide, LinkStatus]] = {}
    for row in rows:
        sides = found.setdefault(Participant(row["partner"]), {})
        if row["side"] is not None:
            sides[LinkSide(row["side"])] = _status(row)
    return tuple(
        PartnerLinks(
            partner=partner,
            client=sides.get(LinkSide.CLIENT),
            server=sides.get(LinkSide.SERVER),
        )
        for partner, sides in found.items()
    )


def _status(row: RowMapping) -> LinkStatus:
    reported = {name: row[name] for name in REPORTED}
    return LinkStatus(
        side=LinkSide(row["side"]),
        reported_ago_ms=row["reported_ago_ms"],
        report=LinkReport(**{**reported, "state": LinkState(row["state"])}),
    )
