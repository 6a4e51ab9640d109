"""The parts of a network: who lands its sources and computes its fragments, width and start.

Every source that lands is landed by exactly one participant and every fragment computed by one or
several, its replicas; all agree on one file, one width and one start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, landing_fragment
from medusa_core.grid import parse_duration_us
from medusa_core.names import FragmentName, Participant, StreamName
from medusa_core.network import Network
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import duration
from pipelines.contracts.composition import Lineage, ReadStream
from pipelines.contracts.fields import Named
from pipelines.contracts.participants import Run, Start
from pipelines.contracts.yaml_values import Value
from pipelines.language.check import CheckedNetwork, check_network, fragments_for
from pipelines.spark.deployment import Owners, equal_widths, streams_of


@dataclass(frozen=True, slots=True)
class Part:
    """What one participant runs of a network."""

    participant: Participant
    run: Run


@dataclass(frozen=True, slots=True)
class NetworkParts:
    """A network that is checked, with its fragments, the width of its buckets and who has them."""

    checked: CheckedNetwork
    fragments: tuple[Fragment, ...]
    width_us: int
    owners: Owners
    run: Run
    start: Start | None

    @property
    def network(self) -> Network:
        """As it was loaded."""
        return self.checked.network

    @property
    def streams(self) -> Iterator[ReadStream]:
        """What it writes, as other networks may read it."""
        sources = [source for source in self.network.sources if source.is_landed]
        writing = {source.stream_name: landing_fragment(source.stream_name) for source in sources}
        writing |= {stream: its.id for its in self.fragments for stream in its.outputs}
        for record in streams_of(self.checked, self.fragments, self.widths_us):
            writers = self.owners[writing[record.name]]
            yield ReadStream(record=record, network=self.network.name, writers=writers)

    def lineage(self, written: Mapping[StreamName, ReadStream]) -> Lineage:
        """Which of its streams it computes from which, of all that are written."""
        return tuple(
            (written[reads].qualified, written[writes].qualified)
            for fragment in self.fragments
            for writes in fragment.outputs
            for reads in fragment.input_streams
        )

    def readers_of(self, stream: StreamName) -> set[Participant]:
        """Who computes a fragment that reads the stream."""
        reading = (f for f in self.fragments if stream in f.input_streams)
        return {participant for fragment in reading for participant in self.owners[fragment.id]}

    @property
    def widths_us(self) -> dict[StreamName, int]:
        """Of each stream that it writes; what it reads of other networks has the width it has."""
        return equal_widths(self.network, self.fragments, self.width_us)


def parts_of(parts: Sequence[Part], loaded: Mapping[str, Network]) -> NetworkParts:
    """What the participants run of one network; `loaded` are networks by the files named.

    Raises Refused, naming file, line and field, if they do not agree or something is left out.
    """
    first = parts[0].run
    network = loaded[first.network]
    for part in parts[1:]:
        if part.run.network != first.network:
            raise part.run.network_at.refused(
                f"gives a network named {network.name}, which {first.network_at.place} takes from "
                "another place: one network has one file; give one of them another name"
            )
    width_us = _width_us(network, parts)
    try:
        checked = check_network(network)
        fragments = fragments_for(checked)
    except Refused as error:
        raise first.network_at.refused(f"cannot be run: {error}") from None
    owners = {**_landings(network, parts), **_computed(network, fragments, parts)}
    return NetworkParts(checked, fragments, width_us, owners, first, _start(network, parts))


def _start(network: Network, parts: Sequence[Part]) -> Start | None:
    """Where the network starts; all parts that say so agree."""
    runs = [part.run for part in parts if part.run.start is not None]
    for run in runs[1:]:
        if run.start != runs[0].start:
            assert run.start_at is not None
            assert runs[0].start_at is not None
            raise run.start_at.refused(
                f"gives network {network.name} another start than {runs[0].start_at.place}: agree "
                "on one"
            )
    return runs[0].start if runs else None


def _width_us(network: Network, parts: Sequence[Part]) -> int:
    """The one width that all parts agree on; the network's own where none is written."""
    own_us = parse_duration_us(network.bucket)
    widths = [own_us if part.run.width_us is None else part.run.width_us for part in parts]
    for part, width_us in zip(parts, widths, strict=True):
        if width_us != widths[0]:
            raise part.run.at.refused(
                f"has buckets of {duration(width_us)} for network {network.name}, but "
                f"{parts[0].run.at.place} has {duration(widths[0])}: agree on one width"
            )
    return widths[0]


def _landings(network: Network, parts: Sequence[Part]) -> dict[str, tuple[Participant, ...]]:
    given = [(part.participant, named) for part in parts for named in part.run.sources]
    names = [source.name for source in network.sources if source.is_landed]
    for _, named in given:
        for source in network.sources:
            if source.name == named.name and not source.is_landed:
                raise named.at.refused(
                    f"is {named.name}, which reads stream {source.stream}: that has landed "
                    "already; leave it out"
                )
    listed = _listed("source", network, names, given, ("landed", "sources"))
    for name, by in listed.items():
        for again in list(by.values())[1:]:
            raise again.refused(
                f"is {name}, which {next(iter(by.values())).place} has already: a source is landed "
                "by exactly one participant"
            )
    return {landing_fragment(StreamName(name)): tuple(by) for name, by in listed.items()}


def _computed(
    network: Network, fragments: Sequence[Fragment], parts: Sequence[Part]
) -> dict[str, tuple[Participant, ...]]:
    given = list(_with_partitions(network, parts))
    ids = {FragmentName(f.name): f.id for f in fragments}
    listed = _listed("fragment", network, list(ids), given, ("computed", "fragments"))
    return {ids[FragmentName(name)]: tuple(sorted(by)) for name, by in listed.items()}


def _with_partitions(
    network: Network, parts: Sequence[Part]
) -> Iterator[tuple[Participant, Named]]:
    """What is listed; a partitioned fragment stands for its partitions that nobody lists, too."""
    named_by = {named.name for part in parts for named in part.run.fragments}
    for part in parts:
        for named in part.run.fragments:
            yield part.participant, named
            partitions = network.partitions.get(named.name)
            for name in partitions.made_for(named.name) if partitions is not None else ():
                if name not in named_by:
                    yield part.participant, Named(name=name, at=named.at)


def _listed(
    kind: str,
    network: Network,
    names: Sequence[str],
    given: Iterable[tuple[Participant, Named]],
    texts: tuple[str, str],
) -> dict[str, dict[Participant, Value]]:
    """Who lists each of the names, and where; Refused if one is unknown or listed by nobody."""
    done, field = texts
    listed: dict[str, dict[Participant, Value]] = {name: {} for name in names}
    for participant, named in given:
        if named.name not in listed:
            hint = did_you_mean(named.name, names, f"it has {', '.join(names)}")
            raise named.at.refused(
                f"is {named.name}, but network {network.name} has no such {kind}: {hint}"
            )
        listed[named.name][participant] = named.at
    for name, by in listed.items():
        if not by:
            raise Refused(
                f"{kind} {name} of network {network.name} is {done} by nobody: add it to {field} "
                "of a participant"
            )
    return listed
