"""A fragment as a network of its own, so that it is computed without the network around it."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.fragments import Fragment
from medusa_core.network import Network, Output, Source
from pipelines.language.check import CheckedNetwork


def network_of_fragment(checked: CheckedNetwork, fragment: Fragment) -> Network:
    """The boxes of a fragment, whose sources are what it reads and whose outputs what it writes."""
    return replace(
        checked.network,
        sources=tuple(
            Source(
                name=str(port),
                stream=str(stream),
                columns={column.name: column.type for column in checked.columns[port]},
            )
            for port, stream in sorted(fragment.inputs.items())
        ),
        boxes=fragment.boxes,
        outputs=tuple(
            Output(name=str(stream), input=str(port))
            for stream, port in sorted(fragment.outputs.items())
        ),
    )
