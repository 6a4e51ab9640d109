"""The partners of a home: list them, write their files, remove one; and rotate the own keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from medusa_core.errors import MedusaError, Refused
from medusa_core.names import Participant, check_name
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.partner_records import PartnerStatus
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.exchange.server_certificates import replace_certificate
from pipelines.operations.exchange_service import certificate_path
from pipelines.operations.partner_invitation import (
    PartnerJoined,
    owned_partners,
    write_file,
)
from pipelines.participant.home_session import open_session

CALLS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerList:
    """The partners of a home, in order of their names."""

    participant: Participant
    partners: tuple[PartnerStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysRotated:
    """The present key of a participant, and which partners know it.

    `uninformed`: a sentence for each other partner, which learns of it when either calls the other.
    """

    participant: Participant
    public_key: bytes
    informed: tuple[Participant, ...]
    uninformed: Mapping[Participant, str]


def list_partners(settings: Settings, participant: str | None) -> PartnerList:
    """The partners of a home, also those that were removed or are invited."""
    with owned_partners(settings, participant) as (name, partners):
        return PartnerList(participant=name, partners=partners.all())


def document(found: PartnerList) -> Mapping[str, Any]:
    """The partners for JSON."""
    return {
        "participant": found.participant,
        "partners": [
            {name: _json_value(value) for name, value in asdict(one).items()}
            for one in found.partners
        ],
    }


def _json_value(value: str | datetime | None) -> str | None:
    return value.isoformat() if isinstance(value, datetime) else value


def export_partner(
    settings: Settings, participant: str | None, partner: str, contracts: Path
) -> PartnerJoined:
    """Write the file of a partner into a contracts folder; Refused if there is no such partner."""
    with owned_partners(settings, participant) as (_, partners):
        status = partners.status_of(Participant(check_name("participant", partner)))
        if status is None or status.state != "partner":
            raise _unknown(partner, partners.all())
    return write_file(contracts, status)


def remove_partner(settings: Settings, participant: str | None, partner: str) -> Participant:
    """Refuse a partner from now on; Refused if there is no such partner."""
    name = Participant(check_name("participant", partner))
    with owned_partners(settings, participant) as (_, partners):
        if not partners.remove(name):
            raise _unknown(partner, partners.all())
    return name


def rotate_keys(settings: Settings, participant: str | None) -> KeysRotated:
    """Replace the participant's key and that of its server's certificate; inform its partners.

    The earlier key counts for 7 days more, so that nothing pauses. A rotation that was interrupted
    is finished, and no other key is drawn.
    """
    with owned_partners(settings, participant) as (name, partners):
        identity = OwnIdentity(settings.directory, name)
        known = partners.own_key(name)
        key = identity.public_key()
        if known in (None, key):
            key = identity.rotate()
        partners.replace_own_key(name, key)
        certificate = certificate_path(settings.directory, name)
        if certificate.exists():
            replace_certificate(certificate, name)
        others = [one.participant for one in partners.all() if one.state == "partner"]
    with open_session(settings, name) as home_session:
        answers = _informed(home_session.exchange, others)
    return KeysRotated(
        participant=name,
        public_key=key,
        informed=tuple(partner for partner, problem in answers.items() if problem is None),
        uninformed={partner: problem for partner, problem in answers.items() if problem},
    )


def _informed(
    exchange: HttpsExchange, partners: Sequence[Participant]
) -> Mapping[Participant, str | None]:
    """Request a token of each partner, to which the key is introduced; why one did not answer."""

    def inform(partner: Participant) -> str | None:
        try:
            exchange.health(partner)
        except MedusaError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(CALLS_MAX) as threads:
        return dict(zip(partners, threads.map(inform, partners), strict=True))


def _unknown(partner: str, known: Sequence[PartnerStatus]) -> Refused:
    names = [one.participant for one in known if one.state != "removed"]
    there = f"there is {', '.join(names)}" if names else "this home has none"
    return Refused(f"there is no partner {partner!r} here: {did_you_mean(partner, names, there)}")
