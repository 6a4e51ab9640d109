"""What partners elsewhere offer to the homes here, for contracts whose networks read their streams.

A stream that a home reads already is known from its catalog: its shape never changes, so that
contracts are applied also while the partner is away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing, suppress

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, StreamName
from medusa_core.protocol.call_documents import OfferedStream
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.home_snapshot import HomeSnapshot, read_home_snapshot
from pipelines.contracts.imported_streams import PartnerStream
from pipelines.homes.home import Homes
from pipelines.participant.home_session import exchange_of


class PartnerOffers:
    """Looks for a partner's stream in the home of a reader, then asks the partner's server.

    `chosen` are the homes that contracts are applied to; for others no partner is asked.
    """

    def __init__(self, homes: Homes, settings: Settings, chosen: Collection[Participant]) -> None:
        self._homes = homes
        self._chosen = chosen
        self._directory = settings.directory
        self._snapshots: dict[Participant, HomeSnapshot] = {}
        self._offers: dict[tuple[Participant, Participant], Mapping[str, OfferedStream]] = {}

    def __call__(
        self, writer: Participant, stream: StreamName, reader: Participant
    ) -> PartnerStream | None:
        """See `pipelines.contracts.imported_streams.Offers`.

        Raises Unavailable if the partner cannot be reached and the stream is not known here.
        """
        is_chosen = reader in self._chosen
        url = self._homes.url(reader, as_it_is=not is_chosen)
        if url is None and not is_chosen:
            return None
        if url is None:
            raise Refused(
                f"{reader} has no home yet in which {writer} is a partner: make it with medusa "
                "apply --homes, join the partner with medusa partner, then apply the contracts"
            )
        if reader not in self._snapshots:
            with suppress(*(() if is_chosen else (Unavailable,))):
                self._snapshots[reader] = read_home_snapshot(url, reader)
        known = _known(self._snapshots.get(reader, HomeSnapshot()), writer, stream)
        if known is not None or not is_chosen:
            return known
        offered = self._offered(url, reader, writer)
        if stream not in offered:
            hint = did_you_mean(stream, offered, f"it offers {', '.join(offered) or 'nothing'}")
            raise Refused(
                f"{writer} offers no stream {stream} to {reader} ({hint}): its operator lists "
                f"{reader} under readers of the stream, or sells it by a content contract"
            )
        return _stream_of(offered[stream])

    def _offered(
        self, url: str, reader: Participant, writer: Participant
    ) -> Mapping[str, OfferedStream]:
        """What the partner offers to the reader; asked once."""
        if (reader, writer) not in self._offers:
            with (
                closing(PostgresCatalog(url, reader)) as catalog,
                closing(exchange_of(self._directory, catalog)) as exchange,
            ):
                try:
                    offers = exchange.offers(writer)
                except Unavailable as error:
                    raise Unavailable(
                        f"the streams of {writer} are not known in the home of {reader} yet, and "
                        f"it was not reached: {error}. Apply the contracts again when it answers: "
                        "medusa doctor says whether it does"
                    ) from error
            self._offers[reader, writer] = {one.name: one for one in offers}
        return self._offers[reader, writer]


def _known(snapshot: HomeSnapshot, writer: Participant, stream: StreamName) -> PartnerStream | None:
    """The stream as it is deployed in a home that imports it from the partner."""
    producers = [its.producer for its in snapshot.lines if its.stream == stream]
    replicas = tuple(sorted(p.replica for p in producers if p.participant == writer))
    if stream not in snapshot.streams or not replicas:
        return None
    lineage = snapshot.lineage.get(stream, ())
    return PartnerStream(record=snapshot.streams[stream], replicas=replicas, lineage=lineage)


def _stream_of(offered: OfferedStream) -> PartnerStream:
    record = StreamRecord(
        name=offered.name,
        kind=offered.kind,
        width_us=offered.width_us,
        columns=offered.columns,
        key=offered.key,
    )
    replicas = tuple(sorted(offered.replicas))
    return PartnerStream(record=record, replicas=replicas, lineage=offered.lineage)
