"""Partners that a home reads from without knowing where: nothing of their streams can arrive.

Two folders whose contracts name each other's participants are such: the contracts name the
participant that computes a stream, but neither home has the other one's key and address until they
join.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from medusa_core.exchange import ImportStatus
from medusa_core.names import Participant
from pipelines.catalog.partner_records import KnownPartner
from pipelines.homes.home import known_homes


class ReadingHome(Protocol):
    """A home with what it imports, and from where."""

    def imports(self) -> tuple[ImportStatus, ...]: ...
    def partner_addresses(self) -> Mapping[Participant, KnownPartner]: ...


def missing_partners(home: ReadingHome, directory: Path) -> dict[Participant, list[str]]:
    """Partner -> its streams that the home imports; `directory` is the folder of homes.

    A partner whose home is in the folder is found by what its server writes there.
    """
    addresses = home.partner_addresses()
    imported = ((line.producer.participant, line.stream) for line in home.imports())
    return without_address(
        imported,
        {partner for partner, known in addresses.items() if known.url is not None},
        directory,
    )


def without_address(
    imported: Iterable[tuple[Participant, str]],
    has_address: Container[Participant],
    directory: Path,
) -> dict[Participant, list[str]]:
    """The same of partners with the streams that are imported from them."""
    here = known_homes(directory)
    found: dict[Participant, set[str]] = {}
    for partner, stream in imported:
        if partner not in here and partner not in has_address:
            found.setdefault(partner, set()).add(stream)
    return {partner: sorted(streams) for partner, streams in sorted(found.items())}


def missing_sentence(reader: Participant, partner: Participant, streams: Sequence[str]) -> str:
    """What is wrong: for `medusa status`, `medusa doctor` and `medusa apply`."""
    return (
        f"{reader} reads {', '.join(streams)} from {partner} and does not know where its server is"
    )


JOIN = (
    "join the two with medusa partner invite there and medusa partner accept here, or write "
    "public_key and exchange into the participant's file"
)
"""What to do about it."""
