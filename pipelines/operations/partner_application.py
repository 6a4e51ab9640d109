"""Apply what contracts say of partners elsewhere: the addresses of their exchange servers.

A file gives a home the first address of a partner. Later ones are learned from what the partner
itself signs, so that an older file changes nothing, and a partner that the owner has removed stays
removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from medusa_core.errors import Refused
from medusa_core.names import Participant
from pipelines.catalog.postgres.partners import Partners
from pipelines.contracts.participants import ParticipantContract
from pipelines.homes.home import Homes


def apply_partners(
    homes: Homes, contracts: Sequence[ParticipantContract], chosen: Sequence[Participant]
) -> tuple[str, ...]:
    """Add partners elsewhere to the chosen homes; a sentence for each that was not added."""
    elsewhere = [one for one in contracts if one.exchange is not None]
    sentences: list[str] = []
    for home in chosen if elsewhere else ():
        url = homes.url(home, "owner", as_it_is=True)
        assert url is not None, "its changes have been applied"
        with closing(Partners(url)) as partners:
            for contract in elsewhere:
                if contract.participant != home:
                    sentences += _added(partners, home, contract)
    return tuple(sentences)


def _added(partners: Partners, home: Participant, contract: ParticipantContract) -> Iterator[str]:
    """Add one partner, unless it has an address."""
    partner, given = contract.participant, contract.exchange
    assert given is not None
    assert contract.public_key is not None
    status = partners.status_of(partner)
    if status is not None and status.state == "removed":
        yield (
            f"{partner} was removed from the home of {home} and stays removed: invite it again, or "
            "delete its file"
        )
    elif status is not None and status.state == "invited":
        return  # it joins with the key that it proves, and with its present address
    elif status is None or status.state == "lapsed" or (status.url is None and given.url):
        try:
            partners.add(partner, contract.public_key, given.url, given.pin)
        except Refused as error:
            yield f"{partner} in the home of {home}: {error}"
    elif given.url and (status.url, status.pin) != (given.url, given.pin):
        yield (
            f"the home of {home} reaches {partner} at {status.url}, as {partner} has signed: its "
            f"file names {given.url}, or an earlier key of its certificate"
        )
