"""What the rest of the path costs behind a fragment, so that it knows when it must answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName

IMPORT_MS = 200
"""What an import adds to a path: the bell, the news, the copy of a file, its commit."""


def rests_ms(fragments: Sequence[FragmentKnowledge]) -> Mapping[str, int]:
    """Fragment -> what the dearest way behind it costs, here and with partners (as they say).

    `fragments` are those of one home, each after those it reads.
    """
    rests: dict[str, int] = {}
    for fragment in reversed(fragments):
        behind = [o.path_ms for o in fragment.outputs.values()]
        behind += [
            reader.cost.path_ms + rests[reader.fragment.id]
            for reader in fragments
            if reader.fragment.id in rests and set(reader.inputs) & set(fragment.outputs)
        ]
        rests[fragment.fragment.id] = max(behind, default=0)
    return rests


def paths_ms(fragments: Sequence[FragmentKnowledge]) -> Mapping[StreamName, int]:
    """Input stream -> what its path costs from its producer's commit on: told to partners."""
    rests = rests_ms(fragments)
    paths: dict[StreamName, int] = {}
    for fragment in fragments:
        cost_ms = IMPORT_MS + fragment.cost.path_ms + rests[fragment.fragment.id]
        for name in fragment.inputs:
            paths[name] = max(paths.get(name, 0), cost_ms)
    return paths
