"""The recipients of Delta Sharing of a home: issue and revoke their tokens, grant them streams."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName, check_name
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.recipients import Recipients
from pipelines.catalog.sharing_records import RecipientStatus
from pipelines.homes.exchange_addresses import is_public, read_address
from pipelines.homes.home import chosen_participant, home_server
from pipelines.sharing.file_calls import PREFIX

PROFILE_VERSION = 1
"""Of the form of a profile file, as the protocol counts it."""

LIFETIME_MS_MAX = 366 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueRequest:
    """A token for a recipient, who is granted `streams` as well.

    `endpoint` None: the address of the home's exchange server, which runs then.
    """

    recipient: str
    participant: str | None = None
    lifetime_ms: int
    streams: tuple[str, ...] = ()
    endpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileIssued:
    """The profile file with the token, which is nowhere else; the number of the token."""

    recipient: str
    token_id: int
    profile: str
    is_public: bool
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGranted:
    """A recipient may read a stream: whether that is new, and whether it has a valid token."""

    is_new: bool
    has_token: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientList:
    """The recipients of a home, in order of their names."""

    participant: Participant
    recipients: tuple[RecipientStatus, ...]


def issue_profile(settings: Settings, request: IssueRequest) -> ProfileIssued:
    """Issue a token; Refused for a name or a time that cannot be, and streams that are not there.

    Raises Unavailable if the exchange server has no address and no endpoint is given.
    """
    check_name("recipient", request.recipient)
    if not 1_000 < request.lifetime_ms <= LIFETIME_MS_MAX:
        raise Refused("a token expires after more than 1s and at most 366d: give another time")
    with owned_recipients(settings, request.participant) as (participant, recipients):
        endpoint = (
            request.endpoint or f"{read_address(settings.directory, participant).url}{PREFIX}"
        )
        if not endpoint.startswith(("https://", "http://")):
            raise Refused("the endpoint is no URL: write it as https://name:port/delta-sharing")
        for stream in request.streams:
            recipients.grant(_stream(stream), request.recipient)
        issued = recipients.issue(request.recipient, request.lifetime_ms)
    profile = {
        "shareCredentialsVersion": PROFILE_VERSION,
        "endpoint": endpoint.rstrip("/"),
        "bearerToken": issued.token,
        "expirationTime": issued.expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }
    return ProfileIssued(
        recipient=request.recipient,
        token_id=issued.token_id,
        profile=json.dumps(profile, indent=1),
        is_public=is_public(endpoint),
        expires_at=issued.expires_at,
    )


def list_recipients(settings: Settings, participant: str | None) -> RecipientList:
    """The recipients of a home."""
    with owned_recipients(settings, participant) as (name, recipients):
        return RecipientList(participant=name, recipients=recipients.all())


def revoke_tokens(
    settings: Settings, participant: str | None, recipient: str, token_id: int | None
) -> int:
    """End one token of a recipient, or all of them (None); Refused if there is none to end."""
    check_name("recipient", recipient)
    with owned_recipients(settings, participant) as (_, recipients):
        revoked = recipients.revoke(recipient, token_id)
        if not revoked:
            names = [one.recipient for one in recipients.all() if one.tokens]
            there = f"valid ones have {', '.join(names)}" if names else "nobody has one"
            hint = f"see medusa recipient list ({there})"
            if recipient not in names:
                hint = did_you_mean(recipient, names, hint)
            raise Refused(f"{recipient} has no valid token to revoke: {hint}")
    return revoked


def grant_stream(
    settings: Settings, participant: str | None, recipient: str, stream: str
) -> StreamGranted:
    """Let a recipient read a stream; Refused if it is not deployed here."""
    check_name("recipient", recipient)
    with owned_recipients(settings, participant) as (_, recipients):
        is_new = recipients.grant(_stream(stream), recipient)
        has_token = any(one.recipient == recipient and one.tokens for one in recipients.all())
    return StreamGranted(is_new=is_new, has_token=has_token)


def withdraw_stream(
    settings: Settings, participant: str | None, recipient: str, stream: str
) -> None:
    """End a recipient's access to a stream; Refused if it has none, or the stream is public."""
    check_name("recipient", recipient)
    with owned_recipients(settings, participant) as (_, recipients):
        if not recipients.withdraw(_stream(stream), recipient):
            raise Refused(f"{recipient} has no grant of stream {stream}: see medusa recipient list")


def document(found: RecipientList) -> Mapping[str, Any]:
    """The recipients for JSON."""
    return {
        "participant": found.participant,
        "recipients": [
            {
                name: value.isoformat() if isinstance(value, datetime) else value
                for name, value in asdict(one).items()
            }
            for one in found.recipients
        ],
    }


@contextmanager
def owned_recipients(
    settings: Settings, name: str | None
) -> Iterator[tuple[Participant, Recipients]]:
    """A home's participant and its recipients, with the login of its owner."""
    participant = chosen_participant(settings, name)
    with (
        home_server(settings, participant) as server,
        closing(Recipients(server.login_url("owner"))) as recipients,
    ):
        yield participant, recipients


def _stream(name: str) -> StreamName:
    return StreamName(check_name("stream", name))
