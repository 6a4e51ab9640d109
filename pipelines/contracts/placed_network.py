"""A network with its placement: which participant lands and computes what, and each home's part."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medusa_core.commits import Hold
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.fragments import Fragment, landing_fragment
from medusa_core.frozen import freeze
from medusa_core.names import FragmentName, Participant, StreamName
from medusa_core.plans import Plan
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.composition import Lineage, Readers, ReadStream
from pipelines.contracts.participants import Start
from pipelines.contracts.stream_bounds import Promise
from pipelines.contracts.streams import SinkContract, StreamContract
from pipelines.exchange import first_holds
from pipelines.exchange.first_holds import partner_readings
from pipelines.spark.deployment import Owners, Wiring, owners_in_home, writing_fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNetwork:
    """A network under its plan, and who computes each fragment (`owners`, by fragment and name).

    `fragments` are its pieces by their ids, landings and imports not among them. `file` is the
    user's file if it must be kept, because the network calls its functions. `promises` are what the
    homes receive for each stream; `verified` says of how many producers a row must be the same
    before it is final for its readers, where that is more than one. `reads` are the streams of
    other networks that it reads, `readers` the fragments of other networks that read its streams.
    `replicas` are the replicas' numbers of a fragment that a partner elsewhere computes, `lineage`
    what its stream is computed from. `start` is where it starts, if that is declared.
    """

    plan: Plan
    streams: tuple[StreamRecord, ...]
    fragments: Mapping[str, Fragment]
    wiring: Wiring
    owners: Owners
    width_us: int
    file: Path | None
    promises: Mapping[StreamName, Promise] = field(default_factory=dict)
    verified: Mapping[StreamName, int] = field(default_factory=dict)
    reads: Mapping[StreamName, ReadStream] = field(default_factory=dict)
    readers: Readers = field(default=Readers({}, {}))
    replicas: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lineage: Lineage = ()
    start: Start | None = None

    def __post_init__(self) -> None:
        freeze(self, "fragments", "wiring", "owners", "promises", "verified", "reads", "replicas")

    @property
    def name(self) -> str:
        """The network's."""
        return self.plan.network.name

    @property
    def document(self) -> str:
        """What a home stores of the network: its plan, or of an imported stream its lineage."""
        if not self.plan.network.is_imported:
            return self.plan.document
        return json.dumps({"stream": self.name, "lineage": self.lineage})

    def owners_for(self, home: Participant) -> Owners:
        """Of the fragments that this home must know; empty if it has no part in the network.

        Who only reads a stream of the network knows the fragment that writes it, and its import.
        """
        found = owners_in_home(*self._with_readers, home)
        return {name: by for name, by in found.items() if name not in self.readers.owners}

    def wires(self, fragment: str) -> tuple[tuple[StreamName, ...], tuple[StreamName, ...]]:
        """The streams that a fragment reads and writes.

        An import writes a line of its own where it chooses among several producers, else nothing.
        """
        if fragment.startswith(IMPORT_PREFIX):
            stream = StreamName(fragment.removeprefix(IMPORT_PREFIX))
            return (), (stream,) if len(self.writers_of(stream)) > 1 else ()
        return self.wiring[fragment]

    def held_by(self, home: Participant) -> frozenset[StreamName]:
        """The streams that a home holds: what it lands or computes, and copies of what it reads."""
        return frozenset(
            stream for fragment in self.owners_for(home) for stream in self.wires(fragment)[1]
        )

    def chosen_by(self, home: Participant) -> frozenset[StreamName]:
        """The streams that a home reads from several producers, choosing among them."""
        imports = (f for f in self.owners_for(home) if f.startswith(IMPORT_PREFIX))
        return frozenset(stream for fragment in imports for stream in self.wires(fragment)[1])

    def delivered_by(
        self, home: Participant, streams: Mapping[StreamName, StreamContract]
    ) -> Iterator[tuple[StreamName, SinkContract]]:
        """The sinks that a home delivers to: of what it alone writes, and what it is named for."""
        for stream in sorted(self.held_by(home)):
            contract = streams.get(stream)
            for sink in contract.sinks if contract is not None else ():
                by = self.writers_of(stream)
                named = sink.participant
                if by == (home,) if named is None else named.name == home:
                    yield stream, sink

    @property
    def readings(self) -> Mapping[Participant, frozenset[tuple[StreamName, Participant]]]:
        """For each home, which of its streams are read, and by which partner."""
        return partner_readings(*self._with_readers)

    @property
    def first_holds(self) -> Mapping[Participant, tuple[Hold, ...]]:
        """For each home, the holds of partners that are to read its streams."""
        return first_holds.first_holds(*self._with_readers)

    @property
    def _with_readers(self) -> tuple[Wiring, Owners]:
        wiring = {**self.wiring, **self.readers.wiring}
        return wiring, {**self.owners, **self.readers.owners}

    def writers_of(self, stream: StreamName) -> tuple[Participant, ...]:
        """Who lands or computes a stream that the network writes or reads, by name."""
        if stream in self.reads:
            return self.reads[stream].writers
        return self.owners[writing_fragments(self.wiring)[stream]]

    def fragment_of(self, stream: StreamName) -> FragmentName | None:
        """The name, within the network, of what computes a stream; None if it is a source."""
        fragment = self.fragments.get(writing_fragments(self.wiring)[stream])
        return None if fragment is None else FragmentName(fragment.name)

    def landed_by(self, participant: Participant) -> Iterator[StreamName]:
        """The sources that a participant lands."""
        for source in self.plan.network.sources:
            name = source.stream_name
            if source.is_landed and participant in self.owners[landing_fragment(name)]:
                yield name
