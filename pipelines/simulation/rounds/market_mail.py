"""Simulated mail: sent to a partner's inbox until it answers, over links that lose much.

It replaces `ContractSync` and the exchange. A message is sent at every tick until its receiver
has answered, so that it arrives twice where only the answer is lost. A late one arrives after
others that were sent later. A replayed one arrives again much later: unchanged, or in a new
envelope, as from a partner whose home was restored from a backup.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from medusa_core.errors import Unavailable
from medusa_core.market.envelopes import Envelope
from pipelines.base.failpoints import reached
from pipelines.market.sync.contract_sync import SyncResult
from pipelines.simulation.rounds.market_homes import HomeClient, MarketHome

if TYPE_CHECKING:
    from pipelines.simulation.rounds.market_world import MarketWorld

NOTHING_ACCEPTED = b'"accepted":[]'
NOTIFICATION_MS = (5, 40)


class SimulatedMail:
    """The contract synchronisation of one process."""

    def __init__(self, home: MarketHome, client: HomeClient, world: MarketWorld) -> None:
        self._home = home
        self._client = client
        self._world = world

    def tick(self) -> SyncResult:
        """Bring what came, send what waits."""
        taken = self._client.read_inbox()
        sent, away = 0, set()
        for number, (_, envelope) in sorted(self._home.mailbox.outbox.items()):
            if envelope.receiver in away or number not in self._home.mailbox.outbox:
                continue
            try:
                self._send(envelope)
            except Unavailable:
                away.add(envelope.receiver)
                continue
            reached("agreement.sent")
            self._home.mailbox.outbox.pop(number, None)
            reached("agreement.acknowledged")
            sent += 1
        return SyncResult(taken=taken, sent=sent, waiting=len(self._home.mailbox.outbox))

    def _send(self, envelope: Envelope) -> None:
        """Raises Unavailable unless the receiver has answered that it has it."""
        world, sender, receiver = self._world, envelope.sender, envelope.receiver
        of = "none" if NOTHING_ACCEPTED in envelope.body else envelope.kind.value
        home = world.homes[receiver]
        is_there = home.paused_until_ms <= world.now_ms
        if world.links.is_lost(sender, receiver, world.now_ms) or not is_there:
            raise Unavailable(f"{receiver} does not answer")
        if world.links.factor(sender, receiver, world.now_ms) > 1 or world.order(
            "late", sender, of
        ):
            # The call is given up; what was sent comes all the same.
            world.after(world.chance.randint(300, 9_000), partial(self.put, world, envelope))
            raise Unavailable(f"{receiver} does not answer in time")
        self.put(world, envelope)
        if world.order("duplicate", sender, of):
            self.put(world, envelope)
        if world.order("replay", sender, of):
            again = envelope
            if world.chance.random() < 0.5:
                again = replace(envelope, nonce=f"{world.chance.getrandbits(128):032x}")
            world.after(world.chance.randint(50, 15_000), partial(self.put, world, again))
        if world.links.is_lost(receiver, sender, world.now_ms):
            raise Unavailable(f"{receiver} is not heard")

    @staticmethod
    def put(world: MarketWorld, envelope: Envelope) -> None:
        """It lies in the receiver's inbox, which rings; nothing where the home is away."""
        home = world.homes[envelope.receiver]
        if home.paused_until_ms > world.now_ms:
            return
        home.mailbox.take_envelope(envelope)
        world.laws.delivered(envelope)
        world.rings(envelope.receiver, world.chance.randint(*NOTIFICATION_MS))
