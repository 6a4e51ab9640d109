"""Invite a participant elsewhere to become a partner, and accept such an invitation.

Two operators need one command each. The one that invites stores the hash of a secret; the other
one's command presents the secret to the exchange server of the first, signed with its own key.
Neither side counts the other as a partner before each has proved to have its key; both commands may
be repeated, and finish what was interrupted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.names import Participant, check_name
from medusa_core.protocol.introductions import Introduction
from medusa_core.protocol.invitations import (
    Invitation,
    hash_of_secret,
    read_code,
    write_code,
)
from pipelines.base import clock
from pipelines.base.failpoints import reached
from pipelines.base.settings import Settings
from pipelines.base.time_text import duration
from pipelines.catalog.partner_records import PartnerStatus
from pipelines.catalog.postgres.partners import Partners
from pipelines.contracts.folder import SUFFIX, check_folder
from pipelines.contracts.partner_file import read_partner_key, write_partner_file
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.exchange.signed_introductions import verified_introduction
from pipelines.homes.exchange_addresses import is_public, read_address
from pipelines.homes.home import chosen_participant, home_server

SECRET_BYTES = 24
LOOK_S = 0.5
LIFETIME_DAYS_MAX = 31
LIFETIME_MS_MAX = LIFETIME_DAYS_MAX * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InviteRequest:
    """Whom the home of `participant` (None: the only one) invites, and for how long.

    `replaces_key`: it may join with another key than the one that is known. `is_waiting`: wait
    until it has joined, then write its file into the contracts folder.
    """

    partner: str
    contracts: Path
    participant: str | None = None
    lifetime_ms: int = 86_400_000
    replaces_key: bool = False
    is_waiting: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationMade:
    """An invitation is open for so long; the code holds its secret."""

    partner: Participant
    code: str
    lifetime_ms: int

    def __repr__(self) -> str:
        return f"InvitationMade(partner={self.partner})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerJoined:
    """A partner has joined, and its file is in the contracts folder.

    `is_reached`: whether the exchange server of the one that has accepted is reached from
    elsewhere; else it reads, and nothing is read there.
    """

    partner: Participant
    file: Path
    is_reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptRequest:
    """An invitation that the home of `participant` (None: the only one) accepts.

    `replaces_key`: the inviter may have another key than the one that is known here, also if that
    one has not signed it; its file gets the other one.
    """

    code: str
    contracts: Path
    participant: str | None = None
    replaces_key: bool = False

    def __repr__(self) -> str:
        return f"AcceptRequest(participant={self.participant})"


def invite_partner(
    settings: Settings, request: InviteRequest, observer: Callable[[InvitationMade], None]
) -> PartnerJoined | None:
    """Invite a participant; None without waiting for it.

    Raises Refused for a participant that cannot be invited or a home that partners elsewhere do not
    reach, Unavailable if the exchange is not served or nobody joins in time.
    """
    partner = Participant(check_name("participant", request.partner))
    check_folder(request.contracts)
    if not 0 < request.lifetime_ms <= LIFETIME_MS_MAX:
        raise Refused(f"an invitation is open for {duration(LIFETIME_MS_MAX * 1_000)} at most")
    with owned_partners(settings, request.participant) as (participant, partners):
        address = read_address(settings.directory, participant)
        if not is_public(address.url):
            raise Refused(
                f"the exchange of {participant} is served to this machine alone ({address.url}): "
                "set MEDUSA_EXCHANGE_NAME to the name by which partners reach it, and start medusa "
                "run or medusa serve again"
            )
        identity = OwnIdentity(settings.directory, participant)
        before = partners.status_of(partner)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        invitation = Invitation(
            inviter=participant,
            invited=partner,
            public_key=identity.public_key(),
            url=address.url,
            pin=address.pin,
            secret=secret,
            expires_at_ms=int(clock.wall_s() * 1_000) + request.lifetime_ms,
        )
        partners.invite(
            partner,
            hash_of_secret(secret),
            request.lifetime_ms,
            replaces_key=request.replaces_key,
        )
        observer(
            InvitationMade(
                partner=partner, code=write_code(invitation), lifetime_ms=request.lifetime_ms
            )
        )
        if not request.is_waiting:
            return None
        joined = _joined(partners, partner, before, clock.monotonic_s() + request.lifetime_ms / 1e3)
        return write_file(request.contracts, joined, replaces_key=request.replaces_key)


def accept_invitation(settings: Settings, request: AcceptRequest) -> PartnerJoined:
    """Join the participant that has sent an invitation, and count it as a partner.

    Raises Refused for an invitation that is not for this home, or over, Conflict if another key of
    the inviter is known that does not lead to its present one, Unavailable if the exchange of the
    inviter cannot be reached: nobody has joined then, and the command may be repeated.
    """
    invitation = read_code(request.code)
    inviter = invitation.inviter
    with owned_partners(settings, request.participant) as (participant, partners):
        if participant != invitation.invited:
            raise Refused(
                f"the invitation is for {invitation.invited}, not for {participant}: choose the "
                "home with --participant, or ask for another invitation"
            )
        known = _known_keys(partners, request.contracts, inviter)
        others = {where: key for where, key in known.items() if key != invitation.public_key}
        address = PartnerAddress(
            url=invitation.url, public_key=invitation.public_key, pin=invitation.pin
        )
        identity = OwnIdentity(settings.directory, participant)
        # What the inviter signs now is newer than its invitation.
        heard = [
            Introduction(
                participant=inviter,
                public_key=invitation.public_key,
                url=invitation.url,
                pin=invitation.pin,
            )
        ]

        def add(*, is_confirmed: bool) -> None:
            partners.add(
                inviter, heard[-1].public_key, heard[-1].url, heard[-1].pin,
                # A known key leads to this one, or the operator has said that it is another.
                replaces_key=request.replaces_key or bool(known), is_confirmed=is_confirmed,
            )  # fmt: skip

        exchange = HttpsExchange(
            participant, lambda partner: address, identity, learn=lambda _, new: heard.append(new)
        )
        with closing(exchange):
            if others and not request.replaces_key:
                introduction = exchange.introduction(inviter)
                check_succession(inviter, others, invitation.public_key, introduction)
            exchange.join(inviter, invitation.secret)
            reached("partner.joined")
            add(is_confirmed=False)
            # With a token each has proved to the other that it has its key.
            exchange.health(inviter)
            reached("partner.confirmed")
            add(is_confirmed=True)
        path = write_partner_file(request.contracts, heard[-1], replaces_key=request.replaces_key)
        is_reached = _is_reached(settings, participant)
        return PartnerJoined(partner=inviter, file=path, is_reached=is_reached)


def write_file(
    contracts: Path, status: PartnerStatus, *, replaces_key: bool = False
) -> PartnerJoined:
    """Write the file of a partner that has joined; its key stays unless `replaces_key`."""
    assert status.public_key is not None
    introduction = Introduction(
        participant=status.participant,
        public_key=bytes.fromhex(status.public_key),
        url=status.url,
        pin=status.pin,
    )
    path = write_partner_file(contracts, introduction, replaces_key=replaces_key)
    return PartnerJoined(partner=status.participant, file=path, is_reached=status.url is not None)


def _known_keys(partners: Partners, contracts: Path, partner: Participant) -> Mapping[str, bytes]:
    """The keys by which a partner is known, by where: its file, and this home."""
    known: dict[str, bytes] = {}
    if of_file := read_partner_key(contracts, partner):
        known[f"{contracts / 'participants' / partner}{SUFFIX}"] = of_file
    status = partners.status_of(partner)
    if status is not None and status.public_key:
        known["this home"] = bytes.fromhex(status.public_key)
    return known


def check_succession(
    partner: Participant, known: Mapping[str, bytes], invited_by: bytes, introduction: str
) -> None:
    """Check that the known keys, and that of the invitation, lead to one key.

    Raises Conflict if a known key does not lead to the present one, and Refused if the invitation's
    does not: another server than the partner's may present the partner's introduction.
    """
    now_ms = int(clock.wall_s() * 1_000)
    verified_introduction(introduction, partner, [invited_by], now_ms)
    for where, key in known.items():
        try:
            verified_introduction(introduction, partner, [key], now_ms)
        except Refused:
            raise Conflict(
                f"{where} has another key of {partner} than its invitation, which that key has not "
                f"signed: give --new-key if the operator of {partner} says that it has a new one"
            ) from None


@contextmanager
def owned_partners(settings: Settings, name: str | None) -> Iterator[tuple[Participant, Partners]]:
    """A home's participant and its partners, with the login of its owner."""
    participant = chosen_participant(settings, name)
    with (
        home_server(settings, participant) as server,
        closing(Partners(server.login_url("owner"))) as partners,
    ):
        yield participant, partners


def _is_reached(settings: Settings, participant: Participant) -> bool:
    """Whether the exchange of a home is served to other machines."""
    try:
        return is_public(read_address(settings.directory, participant).url)
    except Unavailable:
        return False


def _joined(
    partners: Partners, partner: Participant, before: PartnerStatus | None, ends_s: float
) -> PartnerStatus:
    """Wait until an invited participant has proved its key; Unavailable when it is too late."""
    confirmed_before = None if before is None else before.confirmed_at
    while True:
        status = partners.status_of(partner)
        if status is None or status.state in ("removed", "lapsed"):
            raise Unavailable(f"{partner} has not joined in time: invite it again")
        if status.confirmed_at is not None and status.confirmed_at != confirmed_before:
            return status
        if clock.monotonic_s() > ends_s:  # it is a partner from before
            raise Unavailable(f"{partner} has not joined again in time: invite it again")
        clock.sleep_s(LOOK_S)
