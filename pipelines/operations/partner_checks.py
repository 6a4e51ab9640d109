"""The checks of each partner by `medusa doctor`: how it is reached, and who may read what of whom.

A partner elsewhere that cannot be reached, or that refuses this participant, is a failure: somebody
must do something. One in the same folder whose server does not run is a warning, since the
server starts with the participant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.assertions import CLOCK_SKEW_S
from medusa_core.suggest import counted
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.time_text import duration, iso
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.homes.home import known_homes
from pipelines.homes.missing_partners import JOIN, missing_partners, missing_sentence
from pipelines.operations.findings import Finding, fail, ok, warn
from pipelines.participant.home_session import HomeSession, open_session

CALLS_MAX = 16
SKEW_MS_WARN = 60_000
NAMES_MAX = 5
SECOND_US = 1_000_000
HTTPS_PORT = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the own home knows of a partner."""

    partner: Participant
    is_here: bool
    """Whether its home is in the same folder."""
    granted: tuple[str, ...]
    news_ago_ms: int | None


def partner_findings(settings: Settings, participant: Participant) -> Iterator[Finding]:
    """A finding for each partner of a home of the folder, in order of their names."""
    try:
        with open_session(settings, participant) as session:
            catalog, homes = session.home.catalog, known_homes(settings.directory)
            missing = missing_partners(catalog, settings.directory)
            for partner, streams in missing.items():
                sentence = missing_sentence(participant, partner, streams)
                yield fail(f"partner {partner} of {participant}", sentence, JOIN)
            addresses, news_ms = catalog.partner_addresses(), catalog.last_news_ms()
            now_ms = catalog.read_clock_ms()
            known = [
                _Known(
                    partner=partner,
                    is_here=addresses[partner].url is None and partner in homes,
                    granted=catalog.granted_to(partner),
                    news_ago_ms=now_ms - news_ms[partner] if partner in news_ms else None,
                )
                for partner in sorted(addresses.keys() - missing.keys() - {participant})
            ]
            only_read = {p for p, one in addresses.items() if one.url is None} - homes.keys()
            with ThreadPoolExecutor(CALLS_MAX, "medusa-doctor") as threads:
                yield from threads.map(
                    lambda one: _finding(session, one, only_reads=one.partner in only_read), known
                )
    except MedusaError as error:
        yield warn(f"partners of {participant}", str(error))


def _finding(session: HomeSession, known: _Known, *, only_reads: bool) -> Finding:
    return _reader(session, known) if only_reads else _server(session, known)


def _reader(session: HomeSession, known: _Known) -> Finding:
    """A partner elsewhere whose server has no address: nothing is ever requested from it."""
    found = f"only reads here, its server has no address; {_granted(known)}{_news(known)}"
    return ok(_check(session, known), found)


def _server(session: HomeSession, known: _Known) -> Finding:
    """What a partner answers now."""
    check, partner = _check(session, known), known.partner
    rest = f"; {_granted(known)}{_news(known)}"
    try:
        address = session.exchange.address_of(partner)
        session.exchange.health(partner)  # connects, and receives a token
        began_s, began_ms = clock.monotonic_s(), session.home.catalog.read_clock_ms()
        health = session.exchange.health(partner)
        took_ms = (clock.monotonic_s() - began_s) * 1_000
        offered = sorted(offer.name for offer in session.exchange.offers(partner))
    except MedusaError as error:
        return _not_reached(session, known, error, rest)
    # Its clock was read at some moment of the call: half of it is not known.
    ahead_ms = health.clock_ms - began_ms - took_ms / 2
    apart_ms = max(abs(ahead_ms) - took_ms / 2, 0)
    ends_us = (began_ms + round((session.exchange.token_left_s(partner) or 0) * 1_000)) * 1_000
    found = (
        f"{address.url} ({_trust(address)}) answers in {took_ms:.0f} ms, version {health.version}, "
        f"its clock within {_ago(round(abs(ahead_ms)))} of this home's, access token valid until "
        f"{iso(ends_us // SECOND_US * SECOND_US)}, {_streams(offered)} granted{rest}"
    )
    if apart_ms < SKEW_MS_WARN:
        return ok(check, found)
    to_do = f"set both clocks: beyond {duration(CLOCK_SKEW_S * 1_000_000)} it is refused"
    return warn(check, found, to_do)


def _not_reached(session: HomeSession, known: _Known, error: MedusaError, rest: str) -> Finding:
    """Why a partner gave no answer, and what to do."""
    check, partner = _check(session, known), known.partner
    if session.exchange.is_refused(partner):
        return fail(
            check,
            f"{_granted(known)}{_news(known)}; its server issues no access token: {error}",
            "compare both clocks, and call its operator: medusa partner list there says whether it "
            f"knows the present key of {session.home.participant}, or has removed it",
        )
    if known.is_here or not isinstance(error, Unavailable):
        return warn(check, f"{error}{rest}")
    return fail(
        check,
        f"{error}{rest}",
        f"look whether medusa run or medusa serve runs there, and whether firewalls let "
        f"{_place(session, partner)} through",
    )


def _place(session: HomeSession, partner: Participant) -> str:
    """The host and the port of a partner's server."""
    try:
        parts = urlsplit(session.exchange.address_of(partner).url)
    except MedusaError:
        return "its address"
    return f"{parts.hostname} port {parts.port or HTTPS_PORT}"


def _check(session: HomeSession, known: _Known) -> str:
    return f"partner {known.partner} of {session.home.participant}"


def _granted(known: _Known) -> str:
    return f"may read {_streams(known.granted)} of this home"


def _streams(names: Sequence[str]) -> str:
    """How many streams, and the first names."""
    if not names:
        return counted(0, "stream")
    more = ", …" if len(names) > NAMES_MAX else ""
    return f"{counted(len(names), 'stream')} ({', '.join(names[:NAMES_MAX])}{more})"


def _news(known: _Known) -> str:
    return "" if known.news_ago_ms is None else f", last news {_ago(known.news_ago_ms)} ago"


def _trust(address: PartnerAddress) -> str:
    """By what the server is known."""
    if urlsplit(address.url).scheme == "http":
        return "loopback, without TLS"
    return "a public authority's certificate" if address.pin is None else "pinned"


def _ago(length_ms: int) -> str:
    return duration(max(length_ms, 1) * 1_000)
