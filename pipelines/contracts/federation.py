"""The federation that the contracts describe: networks, and who lands and computes what.

Every source of a network is landed by exactly one participant and every fragment computed by one
or several, its replicas; all agree on one file and one width; a stream is written by one network,
which others may read; every source that is landed has a contract that declares its feed.
Violations are refused here, before any home is changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, landing_fragment
from medusa_core.frozen import freeze
from medusa_core.grid import parse_duration_us
from medusa_core.names import FragmentName, Participant, StreamName
from medusa_core.network import Function, Network
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import duration
from pipelines.contracts.composition import (
    Lineage,
    ReadStream,
    check_acyclic,
    in_order,
    read_stream,
    readers_of,
)
from pipelines.contracts.fields import Named, listing
from pipelines.contracts.folder import check_folder
from pipelines.contracts.home_snapshot import READERS, READING, Grant
from pipelines.contracts.imported_streams import (
    Offers,
    Reading,
    imported_network,
    imported_streams,
    nothing_known,
)
from pipelines.contracts.participants import ParticipantContract, Run, Start, read_participants
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.replicas import check_replicas
from pipelines.contracts.stream_bounds import PlacedFragment, promises_of
from pipelines.contracts.stream_sinks import check_sinks
from pipelines.contracts.streams import StreamContract, read_streams
from pipelines.contracts.yaml_values import Value
from pipelines.language.check import CheckedNetwork, check_network, fragments_for
from pipelines.language.load import SHIPPED, load_network
from pipelines.spark.deployment import (
    Owners,
    equal_widths,
    plan_of_widths,
    streams_of,
    wiring_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """All contracts of a folder, agreeing with each other."""

    participants: tuple[ParticipantContract, ...]
    networks: tuple[PlacedNetwork, ...]
    streams: Mapping[StreamName, StreamContract]
    order: tuple[Fragment, ...]
    """The fragments of all networks, each after those that it reads."""

    def __post_init__(self) -> None:
        freeze(self, "streams")

    @property
    def placed_fragments(self) -> Iterator[PlacedFragment]:
        """The fragments of all networks, each after those that it reads."""
        networks = {network.name: network for network in self.networks}
        for fragment in self.order:
            network = networks[fragment.network.name]
            yield PlacedFragment(
                fragment=fragment,
                owners=network.owners[fragment.id],
                width_us=network.width_us,
                promises=network.promises,
            )

    def grants_of(self, home: Participant) -> frozenset[Grant]:
        """The streams of a home that partners may read by the contracts."""
        found: set[Grant] = set()
        for network in self.networks:
            readings = network.readings.get(home, frozenset())
            found |= {Grant(stream, partner, READING) for stream, partner in readings}
            for record in network.streams:
                contract = self.streams.get(record.name)
                if contract is not None and home in network.writers_of(record.name):
                    names = [Participant(named.name) for named in contract.readers]
                    found |= {Grant(record.name, name, READERS) for name in names}
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one participant runs of a network."""

    participant: Participant
    run: Run


@dataclass(frozen=True, slots=True)
class _Shape:
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


def read_federation(contracts: Path, directory: Path, offers: Offers = nothing_known) -> Federation:
    """Read and check a contracts folder; `directory` is MEDUSA_DIR, where the engine is found.

    `offers` tells what partners elsewhere offer; where it does not know, their streams are taken as
    the networks declare them. Raises Refused, naming file, line and field, and what `offers`
    raises.
    """
    check_folder(contracts)
    participants = read_participants(contracts)
    streams = read_streams(contracts)
    parts: dict[str, list[_Part]] = {}
    loaded: dict[str, Network] = {}
    for contract in participants:
        for run in contract.runs:
            network = loaded.get(run.network) or _loaded(run)
            loaded[run.network] = network
            parts.setdefault(network.name, []).append(_Part(contract.participant, run))
    shapes = [_shape(parts[name], loaded) for name in sorted(parts)]
    written = _written(shapes)
    with _engine_folder(directory) as folder:
        imported = _imported(shapes, written, participants, offers, folder)
        written |= {stream.record.name: stream for one in imported for stream in _read_of(one)}
        placed = (_placed(shape, shapes, written, folder) for shape in shapes)
        networks = (*imported, *placed)
    check_acyclic([*(shape.lineage(written) for shape in shapes), *(n.lineage for n in networks)])
    order = in_order(fragment for shape in shapes for fragment in shape.fragments)
    _check_contracts_of_streams(networks, streams, contracts)
    networks = _promised(networks, order, streams)
    names = [contract.participant for contract in participants]
    check_replicas(networks, streams, names)
    check_sinks(networks, streams, names)
    _check_readers(networks, streams, names)
    return Federation(
        participants=participants,
        networks=networks,
        streams={contract.stream: contract for contract in streams},
        order=order,
    )


def _promised(
    networks: Sequence[PlacedNetwork],
    order: Sequence[Fragment],
    contracts: Sequence[StreamContract],
) -> tuple[PlacedNetwork, ...]:
    """The networks with what is promised of their streams."""
    declared = {c.stream: c.bound for c in contracts if c.bound is not None}
    lags_ms = {
        source.stream_name: source.disorder_us // 1_000
        for network in networks
        for source in network.plan.network.sources
        if source.is_landed or network.plan.network.is_imported
    }
    lags_ms |= {c.stream: c.lag_ms for c in contracts if c.lag_ms is not None}
    promises = promises_of(lags_ms, order, declared)
    verified = {c.stream: c.verify.count for c in contracts if c.verify and c.verify.count > 1}
    return tuple(
        replace(
            network,
            promises={record.name: promises[record.name] for record in network.streams},
            verified={r.name: verified[r.name] for r in network.streams if r.name in verified},
        )
        for network in networks
    )


def _loaded(run: Run) -> Network:
    try:
        return load_network(run.network)
    except Refused as error:
        raise run.network_at.refused(f"cannot be run: {error}") from None


@contextmanager
def _engine_folder(directory: Path) -> Iterator[Path]:
    """MEDUSA_DIR if it is there; else a folder that goes again, since looking leaves no trace."""
    if directory.is_dir():
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="medusa-apply-") as scratch:
        yield Path(scratch)


def _shape(parts: Sequence[_Part], loaded: Mapping[str, Network]) -> _Shape:
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
    return _Shape(checked, fragments, width_us, owners, first, _start(network, parts))


def _start(network: Network, parts: Sequence[_Part]) -> Start | None:
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


def _written(shapes: Sequence[_Shape]) -> dict[StreamName, ReadStream]:
    """The streams of all networks; Refused if two networks write one."""
    written: dict[StreamName, ReadStream] = {}
    for stream in (stream for shape in shapes for stream in shape.streams):
        other = written.setdefault(stream.record.name, stream)
        if other.network != stream.network:
            raise Refused(
                f"stream {stream.record.name} belongs to network {other.network} and to "
                f"{stream.network}: rename it in one of them"
            )
    return written


def _imported(
    shapes: Sequence[_Shape],
    written: Mapping[StreamName, ReadStream],
    participants: Sequence[ParticipantContract],
    offers: Offers,
    directory: Path,
) -> tuple[PlacedNetwork, ...]:
    """The networks that bring streams of partners elsewhere into the homes that read them."""
    readings = [
        Reading(
            source=source,
            network=shape.network.name,
            width_us=shape.width_us,
            readers=tuple(sorted(shape.readers_of(source.stream_name))),
            at=shape.run.network_at,
        )
        for shape in shapes
        for source in shape.network.sources
        if not source.is_landed and source.stream_name not in written
    ]
    fragments = [(f, shape.owners[f.id]) for shape in shapes for f in shape.fragments]
    found = imported_streams(readings, participants, offers)
    return tuple(
        imported_network(name, found[name], fragments, directory) for name in sorted(found)
    )


def _read_of(network: PlacedNetwork) -> Iterator[ReadStream]:
    for record in network.streams:
        writers = network.writers_of(record.name)
        yield ReadStream(record=record, network=network.name, writers=writers)


def _placed(
    shape: _Shape,
    shapes: Sequence[_Shape],
    written: Mapping[StreamName, ReadStream],
    directory: Path,
) -> PlacedNetwork:
    network, checked, fragments = shape.network, shape.checked, shape.fragments
    try:
        reads = {
            source.stream_name: read_stream(checked, source, written)
            for source in network.sources
            if not source.is_landed
        }
        read_us = {name: its.record.width_us for name, its in reads.items()}
        plan = plan_of_widths(network, checked, {**shape.widths_us, **read_us}, directory)
        wiring = wiring_of(plan, fragments)
    except Refused as error:
        raise shape.run.network_at.refused(f"cannot be run: {error}") from None
    has_function = any(isinstance(box, Function) for box in network.boxes)
    file = shape.run.network
    others = [(f, its.owners[f.id]) for its in shapes if its is not shape for f in its.fragments]
    streams = streams_of(checked, fragments, plan.widths_us)
    return PlacedNetwork(
        plan=plan,
        streams=streams,
        fragments={fragment.id: fragment for fragment in fragments},
        wiring=wiring,
        owners=shape.owners,
        width_us=shape.width_us,
        file=Path(file) if has_function and file not in SHIPPED else None,
        reads=reads,
        readers=readers_of({record.name for record in streams}, others),
        start=shape.start,
    )


def _width_us(network: Network, parts: Sequence[_Part]) -> int:
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


def _landings(network: Network, parts: Sequence[_Part]) -> dict[str, tuple[Participant, ...]]:
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
    network: Network, fragments: Sequence[Fragment], parts: Sequence[_Part]
) -> dict[str, tuple[Participant, ...]]:
    given = [(part.participant, named) for part in parts for named in part.run.fragments]
    ids = {FragmentName(f.name): f.id for f in fragments}
    listed = _listed("fragment", network, list(ids), given, ("computed", "fragments"))
    return {ids[FragmentName(name)]: tuple(sorted(by)) for name, by in listed.items()}


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


def _imported_names(networks: Sequence[PlacedNetwork]) -> set[StreamName]:
    """The streams of partners elsewhere."""
    return {s.name for n in networks if n.plan.network.is_imported for s in n.streams}


def _check_readers(
    networks: Sequence[PlacedNetwork],
    contracts: Sequence[StreamContract],
    participants: Sequence[Participant],
) -> None:
    writers = {r.name: network.writers_of(r.name) for network in networks for r in network.streams}
    imported = _imported_names(networks)
    for contract in contracts:
        for named in contract.readers:
            if named.name not in participants:
                to_do = f"join it, then write its file with medusa partner export {named.name}"
                hint = did_you_mean(named.name, participants, to_do)
                raise named.at.refused(
                    f"is {named.name}, who has no contract as participant: {hint}"
                )
            if contract.stream in imported:
                raise named.at.refused(
                    f"is to read {contract.stream}, which {listing(writers[contract.stream])} "
                    "writes and grants: leave it out"
                )
            if named.name in writers[contract.stream]:
                raise named.at.refused(
                    f"is {named.name}, who writes {contract.stream}: leave it out"
                )


def _check_contracts_of_streams(
    networks: Sequence[PlacedNetwork], contracts: Sequence[StreamContract], folder: Path
) -> None:
    kinds = {stream.name: stream.kind for network in networks for stream in network.streams}
    imported = _imported_names(networks)
    for contract in contracts:
        if contract.stream not in kinds:
            hint = did_you_mean(contract.stream, kinds, f"there is {', '.join(kinds) or 'none'}")
            raise contract.at.refused(
                f"is {contract.stream}, which no network that anybody runs has: {hint}"
            )
        if contract.source is not None and contract.stream in imported:
            raise contract.source_at.refused(
                f"feeds {contract.stream}, which a partner writes: only sources landed here are fed"
            )
        if contract.source is not None and kinds[contract.stream] != "source":
            raise contract.source_at.refused(
                f"feeds {contract.stream}, which is computed: only a network's sources are fed"
            )
    for contract in contracts:
        is_read = kinds[contract.stream] == "source" or contract.stream in imported
        if contract.bound is not None and is_read:
            what = "a partner writes" if contract.stream in imported else "is a source"
            raise contract.lag_at.refused(
                f"promises a bound of {contract.stream}, which {what}: declare it of what is "
                "computed from it"
            )
        if contract.lag_ms is not None and not is_read:
            raise contract.lag_at.refused(
                f"says how late {contract.stream} is due, which is computed: only a network's "
                "sources have a lag of their own"
            )
    fed = {contract.stream for contract in contracts if contract.source is not None}
    for name, kind in kinds.items():
        if kind == "source" and name not in fed | imported:
            raise Refused(
                f"nothing feeds source {name}: say what does in {folder}/streams/{name}.yaml, "
                "under source"
            )
