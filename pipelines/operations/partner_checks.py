"""The checks of each partner by `medusa doctor`: is it reached, and what does it say.

A partner that does not answer is a fact of another machine: a warning, no failure of this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from medusa_core.protocol.assertions import CLOCK_SKEW_S
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.time_text import counted, duration
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.operations.findings import Finding, ok, warn
from pipelines.participant.home_session import HomeSession, open_session

CALLS_MAX = 16
SKEW_MS_WARN = 60_000


def partner_findings(settings: Settings, participant: Participant) -> Iterator[Finding]:
    """A finding for each partner of a home of the folder, in order of their names."""
    try:
        with open_session(settings, participant) as session:
            partners = sorted(session.home.catalog.partner_addresses().keys() - {participant})
            news_ms = session.home.catalog.last_news_ms()
            now_ms = session.home.catalog.read_clock_ms()
            with ThreadPoolExecutor(CALLS_MAX, "medusa-doctor") as threads:
                yield from threads.map(
                    lambda partner: _finding(session, partner, now_ms, news_ms.get(partner)),
                    partners,
                )
    except MedusaError as error:
        yield warn(f"partners of {participant}", str(error))


def _finding(
    session: HomeSession, partner: Participant, now_ms: int, came_at_ms: int | None
) -> Finding:
    """What a partner answers now."""
    check = f"partner {partner} of {session.home.participant}"
    news = "" if came_at_ms is None else f", last news {_ago(now_ms - came_at_ms)} ago"
    try:
        address = session.exchange.address_of(partner)
        session.exchange.health(partner)  # connects, and receives a token
        began_s, began_ms = clock.monotonic_s(), session.home.catalog.read_clock_ms()
        health = session.exchange.health(partner)
        took_ms = (clock.monotonic_s() - began_s) * 1_000
        offered = len(session.exchange.offers(partner))
    except MedusaError as error:
        return warn(check, f"{error}{news}")
    # Its clock was read at some moment of the call: half of it is not known.
    ahead_ms = health.clock_ms - began_ms - took_ms / 2
    apart_ms = max(abs(ahead_ms) - took_ms / 2, 0)
    found = (
        f"{address.url} ({_trust(address)}) answers in {took_ms:.0f} ms, version {health.version}, "
        f"its clock within {_ago(round(abs(ahead_ms)))} of this home's, "
        f"{counted(offered, 'stream')} granted{news}"
    )
    if apart_ms < SKEW_MS_WARN:
        return ok(check, found)
    to_do = f"set both clocks: beyond {duration(CLOCK_SKEW_S * 1_000_000)} it is refused"
    return warn(check, found, to_do)


def _trust(address: PartnerAddress) -> str:
    """By what the server is known."""
    if urlsplit(address.url).scheme == "http":
        return "loopback, without TLS"
    return "a public authority's certificate" if address.pin is None else "pinned"


def _ago(length_ms: int) -> str:
    return duration(max(length_ms, 1) * 1_000)
