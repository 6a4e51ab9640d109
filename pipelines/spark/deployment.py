"""From a network to its deployment in a home: plan, streams, fragments, assignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from medusa_core.exchange import import_fragment
from medusa_core.fragments import Fragment, check_width, fragments_of, landing_fragment
from medusa_core.names import FIRST_EPOCH, NetworkName, Participant, StreamName
from medusa_core.network import Network, Port
from medusa_core.plans import Plan
from medusa_core.segments import Producer
from pipelines.catalog.records import Assignment, Deployment, StreamRecord
from pipelines.language.check import CheckedNetwork, fragments_for
from pipelines.language.load import function_sources
from pipelines.language.panes import over_panes
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.session import engine_settings

Owners = Mapping[str, tuple[Participant, ...]]
"""Fragment -> who computes it, by name: several are replicas of each other."""

Wiring = Mapping[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]]
"""Fragment -> the streams that it reads and those that it writes."""


def plan_of(network: Network, checked: CheckedNetwork, width_us: int, directory: Path) -> Plan:
    """The plan of a network whose streams all have buckets of one width.

    `directory` is the home's: the engine is the one that will run there.
    """
    widths_us = equal_widths(network, fragments_for(checked), width_us)
    return plan_of_widths(network, checked, widths_us, directory)


def equal_widths(
    network: Network, fragments: Sequence[Fragment], width_us: int
) -> dict[StreamName, int]:
    """One width for every stream that a network reads or writes."""
    streams = [source.stream_name for source in network.sources]
    streams += [stream for fragment in fragments for stream in fragment.outputs]
    return dict.fromkeys(streams, width_us)


def plan_of_widths(
    network: Network, checked: CheckedNetwork, widths_us: Mapping[StreamName, int], directory: Path
) -> Plan:
    """The plan of a network whose streams have buckets of these widths.

    That of a network without boxes is the same under every engine.
    """
    assert checked.network is network
    fragments = fragments_for(checked)
    engine = {**engine_settings(directory), "compiled": compiled_fingerprint(checked, fragments)}
    return Plan(
        network=network,
        widths_us=widths_us,
        function_sources=function_sources(network),
        engine=engine if network.boxes else {},
    )


def compiled_fingerprint(checked: CheckedNetwork, fragments: Sequence[Fragment]) -> str:
    """What our own compiler makes of the boxes, so that a change of its rules is another plan."""
    paned, folds = over_panes(checked)
    if folds:
        fragments = fragments_of(paned.network)
    compiled = [compile_fragment(f, paned) for f in fragments]
    texts = [text for c in compiled for text in (*(s.sql for s in c.statements), c.sql)]
    return sha256("\n".join(texts).encode()).hexdigest()[:32]


def deployment_of(
    plan: Plan, checked: CheckedNetwork, fragments: Sequence[Fragment], producer: Producer
) -> Deployment:
    """Everything of the plan, assigned to one producer from the beginning on.

    Raises Refused if an output's buckets are not made of whole buckets of its inputs.
    """
    wiring = wiring_of(plan, fragments)
    return Deployment(
        network=NetworkName(plan.network.name),
        document=plan.document,
        plan=plan.id,
        plan_document=plan.document,
        streams=streams_of(checked, fragments, plan.widths_us),
        fragments=wiring,
        assignments=tuple(
            Assignment(fragment=name, producer=producer, epoch=FIRST_EPOCH, plan=plan.id)
            for name in wiring
        ),
    )


def streams_of(
    checked: CheckedNetwork, fragments: Sequence[Fragment], widths_us: Mapping[StreamName, int]
) -> tuple[StreamRecord, ...]:
    """Every stream that a network writes, with its shape: landed sources, then what is computed."""
    sources = [
        StreamRecord(
            name=source.stream_name,
            kind="source",
            width_us=widths_us[source.stream_name],
            columns={c.name: c.type for c in checked.columns[Port(source.name)]},
            key=source.key,
        )
        for source in checked.network.sources
        if source.is_landed
    ]
    derived = [
        StreamRecord(
            name=stream,
            kind="derived",
            width_us=widths_us[stream],
            columns={c.name: c.type for c in checked.columns[port]},
        )
        for fragment in fragments
        for stream, port in fragment.outputs.items()
    ]
    return (*sources, *derived)


def wiring_of(plan: Plan, fragments: Sequence[Fragment]) -> Wiring:
    """Fragment -> (streams it reads, streams it writes), the landing of each source included.

    Raises Refused if an output's buckets are not made of whole buckets of its inputs.
    """
    wiring: dict[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]] = {
        landing_fragment(s.stream_name): ((), (s.stream_name,))
        for s in plan.network.sources
        if s.is_landed
    }
    for fragment in fragments:
        for stream in fragment.outputs:
            for input_ in fragment.input_streams:
                check_width(stream, plan.widths_us[stream], input_, plan.widths_us[input_])
        wiring[fragment.id] = (fragment.input_streams, tuple(fragment.outputs))
    return wiring


def writing_fragments(wiring: Wiring) -> Mapping[StreamName, str]:
    """Stream -> the fragment that writes it."""
    return {stream: name for name, (_, outputs) in wiring.items() for stream in outputs}


def owners_in_home(wiring: Wiring, owners: Owners, home: Participant) -> Owners:
    """Fragment -> who computes it, of all that a home of a federation must know of a network.

    Its own fragments; for each stream that they read and a partner writes, the fragment that makes
    the lines that are read, with all who compute it, and an import of its own. Where this home is
    one of several producers of a stream that it reads, it imports the others' lines, too. A stream
    that no fragment here writes belongs to another network, which brings it into the home.
    """
    writing = writing_fragments(wiring)
    found = {name: owners[name] for name in wiring if home in owners[name]}
    for name in list(found):
        for stream in wiring[name][0]:
            by = owners[writing[stream]] if stream in writing else (home,)
            if by != (home,):
                found[writing[stream]] = by
                found[import_fragment(stream)] = (home,)
    return found
