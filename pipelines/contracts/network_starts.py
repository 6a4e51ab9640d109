"""Where the outputs of a late network start: at the origin of what it reads, now, or at a time.

It is settled when a home first deploys the network, and stays as it is: every home starts it with
the same bucket, whenever its contracts are applied.
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.errors import Conflict, Refused
from medusa_core.grid import ceil_us
from medusa_core.names import Participant
from pipelines.base.time_text import iso
from pipelines.contracts.home_snapshot import HomeSnapshot
from pipelines.contracts.placed_network import PlacedNetwork

Snapshots = Mapping[Participant, HomeSnapshot]


def start_of(network: PlacedNetwork, snapshots: Snapshots) -> int | None:
    """The first bucket that the network computes; None: that of the origin of what it reads.

    Raises Refused if the contracts give another start than the homes, Conflict if homes disagree.
    """
    declared = network.start
    stand = {
        snapshot.fragments[name].starts_us: home
        for home, snapshot in snapshots.items()
        for name in network.fragments
        if name in snapshot.fragments
    }
    if len(stand) > 1:
        homes = " and ".join(f"at {_at(us)} in the home of {home}" for us, home in stand.items())
        raise Conflict(f"network {network.name} starts {homes}: their operators must agree")
    declared_us = None
    if declared is not None and declared.from_us is not None:
        declared_us = ceil_us(declared.from_us, network.width_us)
    if not stand:
        if declared is not None and declared.is_now:
            clock_ms = max((s.clock_ms for s in snapshots.values() if s.clock_ms), default=0)
            return ceil_us(clock_ms * 1_000, network.width_us)
        return declared_us
    ((starts_us, home),) = stand.items()
    if declared is not None and not declared.is_now and declared_us != starts_us:
        raise Refused(
            f"network {network.name} starts at {_at(starts_us)} in the home of {home}, and its "
            f"contract gives {_at(declared_us)}: that cannot be changed in place; give the network "
            "and its streams other names"
        )
    return starts_us


def _at(starts_us: int | None) -> str:
    return "the origin" if starts_us is None else iso(starts_us)
