"""The listening connections of the product's `NotificationListener` in the simulation, on virtual
time.

As with LISTEN, a notification that is sent while no call waits stays on the connection, and a
connection to a server that was killed is dead.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import psycopg2

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.exchange.notification_listener import (
    CHANNEL,
    ListenerConnection,
    ListenerIO,
    NotificationListener,
)
from pipelines.simulation.faults.simulated_processes import Process, Thread

if TYPE_CHECKING:
    from pipelines.simulation.faults.simulated_homes import SimulatedHome
    from pipelines.simulation.faults.world import World

NOTIFICATION_MS = 40
"""How long a notification takes; several arrive as one."""


class SimulatedConnection:
    """A connection that listens at a home, for the fiber of a process that opened it."""

    def __init__(self, home: SimulatedHome, thread: Thread) -> None:
        self.notifies: list[Any] = []
        self.is_dead = False
        self.thread = thread
        self._home = home
        home.listeners.append(self)

    @property
    def is_ready(self) -> bool:
        """Whether a wait for it ends."""
        return self.is_dead or bool(self.notifies)

    def say(self) -> None:
        """NOTIFY."""
        self.notifies.append(CHANNEL)

    def poll(self) -> None:
        """Raises psycopg2.Error if it is dead."""
        if self.is_dead:
            raise psycopg2.OperationalError("the server closed the connection")

    def close(self) -> None:
        """Close the connection."""
        if self in self._home.listeners:
            self._home.listeners.remove(self)


def listener_of(world: World, process: Process) -> NotificationListener:
    """The listener of a participant's loop: at its own home and at those that it imports from."""
    partners = {w.participant for ws in world.imports[process.participant].values() for w in ws}
    partners |= world.scenario.moves.partners(process.participant)

    def listen(url: str) -> ListenerConnection:
        home = world.homes[Participant(url)]
        try:
            world.check_link(process.participant, home.participant)
            world.check_link(home.participant, process.participant)
            home.reach()
        except Unavailable as error:
            raise psycopg2.OperationalError(str(error)) from error
        return SimulatedConnection(home, world.running)

    def wait(lines: list[ListenerConnection], limit_s: float) -> list[ListenerConnection]:
        limit_ms = ceil(limit_s * 1000)
        mine = [line for line in lines if isinstance(line, SimulatedConnection)]
        if any(line.is_ready for line in mine):
            world.rest(min(NOTIFICATION_MS, limit_ms), is_timer=True)
        else:
            world.rest(limit_ms, sleeps=True)
        return [line for line in lines if isinstance(line, SimulatedConnection) and line.is_ready]

    listener_io = ListenerIO(
        listen=listen,
        wait=wait,
        now_s=lambda: world.now_ms / 1000,
        sleep=lambda limit_s: world.rest(ceil(limit_s * 1000), is_timer=True),
    )
    return NotificationListener([process.participant, *sorted(partners)], listener_io)
