"""The links of a home with its partners, as facts for `medusa status` and the metrics.

Processes of the home report what they have counted every 5 s. A report that is older than a minute
says nothing about now: the process that made it has ended, or has made no request since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.base.time_text import duration
from pipelines.catalog.partner_records import LinkState, LinkStatus, PartnerLinks

OLD_MS = 60_000
"""A driver that imports from a partner requests something every half second."""

UNKNOWN = "unknown"
COUNTED = ("requests", "failures", "files", "bytes_received", "bytes_sent")
MEASURED = ("answer_ms", "answer_ms_max", "delay_ms", "delay_ms_max")


def link_facts(links: Iterable[PartnerLinks]) -> list[dict[str, Any]]:
    """Each link, by partner and side; a partner of which nothing was reported has none."""
    return [
        _facts(one.partner, status)
        for one in links
        for status in (one.client, one.server)
        if status is not None
    ]


def present_state(status: LinkStatus) -> LinkState | None:
    """The state of a link; None if nobody has used it of late."""
    return None if status.reported_ago_ms > OLD_MS else status.report.state


def _facts(partner: str, status: LinkStatus) -> dict[str, Any]:
    report, state = status.report, present_state(status)
    return {
        "partner": partner,
        "side": status.side.value,
        "state": UNKNOWN if state is None else state.value,
        "since_ago_ms": None if state is None else report.state_ago_ms,
        "reported_ago_ms": status.reported_ago_ms,
        "answered_ago_ms": report.answered_ago_ms,
        "failed_ago_ms": report.failed_ago_ms,
        "error": report.error,
        **{name: getattr(report, name) for name in (*COUNTED, *MEASURED)},
    }


def broken_link(fact: Mapping[str, Any]) -> str | None:
    """The sentence about a link that does not work now, with what to do; None if it works."""
    if fact["state"] not in (LinkState.UNREACHABLE.value, LinkState.REFUSED.value):
        return None
    lasts = duration(max(fact["since_ago_ms"], 1) // 1_000 * 1_000_000)
    return (
        f"LINK to {fact['partner']} is {fact['state']} for {lasts}: {fact['error']} (medusa doctor "
        "asks it now, and says what to do)"
    )
