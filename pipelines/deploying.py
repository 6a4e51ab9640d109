"""From a network to what a home must hold of it: plan, streams, fragments, assignments."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from medusa_core.fragments import Fragment, check_width, fragments_of
from medusa_core.names import Epoch, NetworkName, StreamName
from medusa_core.network import Network, Port
from medusa_core.plans import Plan
from medusa_core.segments import Producer
from pipelines.catalog.interface import Assignment, Deployment, StreamRecord
from pipelines.networks.check import (
    CheckedAggregate,
    CheckedFilter,
    CheckedMap,
    CheckedNetwork,
)
from pipelines.networks.load import function_sources
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.session import engine_settings
from pipelines.streams.landing import landing_fragment

FIRST_EPOCH = Epoch(1)


def fragments_for(checked: CheckedNetwork) -> tuple[Fragment, ...]:
    """The fragments of a checked network; those with a box that can fail on a record are marked."""
    return fragments_of(checked.network, fallible_boxes(checked))


def fallible_boxes(checked: CheckedNetwork) -> frozenset[str]:
    """The boxes with an expression that some record could fail."""
    found = set()
    for name, box in checked.boxes.items():
        match box:
            case CheckedFilter():
                errors = [e.error for _, e in box.cases]
            case CheckedMap():
                errors = [e.error for _, e in box.columns]
            case CheckedAggregate():
                errors = [e.record_error or e.error for _, e in box.columns]
            case _:
                errors = []
        if any(errors):
            found.add(name)
    return frozenset(found)


def plan_of(network: Network, checked: CheckedNetwork, width_us: int, directory: Path) -> Plan:
    """The plan of a network whose streams all have buckets of one width.

    `directory` is the home's: the engine is the one that will run there.
    """
    assert checked.network is network
    fragments = fragments_for(checked)
    streams = [StreamName(s.name) for s in network.sources]
    streams += [stream for f in fragments for stream in f.outputs]
    return Plan(
        network=network,
        widths_us=dict.fromkeys(streams, width_us),
        function_sources=function_sources(network),
        engine={**engine_settings(directory), "compiled": compiled_fingerprint(checked, fragments)},
    )


def compiled_fingerprint(checked: CheckedNetwork, fragments: Sequence[Fragment]) -> str:
    """What our own compiler makes of the boxes, so that a change of its rules is another plan."""
    compiled = [compile_fragment(f, checked) for f in fragments]
    texts = [text for c in compiled for text in (*(s.sql for s in c.statements), c.sql)]
    return sha256("\n".join(texts).encode()).hexdigest()[:32]


def deployment_of(
    plan: Plan, checked: CheckedNetwork, fragments: Sequence[Fragment], producer: Producer
) -> Deployment:
    """Everything of the plan, assigned to one producer from the beginning on.

    Raises Refused if an output's buckets are not made of whole buckets of its inputs.
    """
    network = plan.network
    streams = [
        StreamRecord(
            name=StreamName(source.name),
            kind="source",
            width_us=plan.widths_us[StreamName(source.name)],
            columns={c.name: c.type for c in checked.columns[Port(source.name)]},
            key=source.key,
        )
        for source in network.sources
    ]
    wiring: dict[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]] = {
        landing_fragment(StreamName(s.name)): ((), (StreamName(s.name),)) for s in network.sources
    }
    for fragment in fragments:
        for stream, port in fragment.outputs.items():
            width_us = plan.widths_us[stream]
            for input_ in fragment.input_streams:
                check_width(stream, width_us, input_, plan.widths_us[input_])
            columns = {c.name: c.type for c in checked.columns[port]}
            streams.append(
                StreamRecord(name=stream, kind="derived", width_us=width_us, columns=columns)
            )
        wiring[fragment.id] = (fragment.input_streams, tuple(fragment.outputs))
    return Deployment(
        network=NetworkName(network.name),
        document=plan.document,
        plan=plan.id,
        plan_document=plan.document,
        streams=tuple(streams),
        fragments=wiring,
        assignments=tuple(
            Assignment(fragment=name, producer=producer, epoch=FIRST_EPOCH, plan=plan.id)
            for name in wiring
        ),
    )
