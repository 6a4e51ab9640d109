"""The cost of the path behind a fragment, from which the fragment's latest answer time follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName

IMPORT_MS = 200
"""What an import adds to a path: the notification, the news, the copy of a file, its commit."""


def rests_ms(fragments: Sequence[FragmentKnowledge]) -> Mapping[str, int]:
    """Fragment -> what the dearest path behind it costs, here and with partners (as they say).

    `fragments` are those of one home, each after those it reads.
    """
    rests: dict[str, int] = {}
    read_ms: dict[StreamName, int] = {}
    for fragment in reversed(fragments):
        rest_ms = max(
            (max(o.path_ms, read_ms.get(name, 0)) for name, o in fragment.outputs.items()),
            default=0,
        )
        rests[fragment.fragment.id] = rest_ms
        for name in fragment.inputs:
            read_ms[name] = max(read_ms.get(name, 0), fragment.cost.path_ms + rest_ms)
    return rests


def paths_ms(fragments: Sequence[FragmentKnowledge]) -> Mapping[StreamName, int]:
    """Input stream -> what its path costs from its producer's commit on: reported to partners."""
    rests = rests_ms(fragments)
    paths: dict[StreamName, int] = {}
    for fragment in fragments:
        cost_ms = IMPORT_MS + fragment.cost.path_ms + rests[fragment.fragment.id]
        for name in fragment.inputs:
            paths[name] = max(paths.get(name, 0), cost_ms)
    return paths
