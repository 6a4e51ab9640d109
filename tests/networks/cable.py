"""A cable between namespaces, in user space: what it carries is delayed, lost, slowed down or cut.

    python -m tests.networks.cable PORT PORT [PORT ...]

It reads the frames that the machines send at the other ends of these ports, and passes them on
under the conditions of each direction. The kernel needs no netem for it, and losses have a seed.
Orders are lines of JSON at its input; each is answered by a line with what was carried so far. It
ends with its input.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FRAME_BYTES_MAX, FRAMES_AT_ONCE = 65_536, 64
ALL_PROTOCOLS = 3
SOL_PACKET, IGNORE_OUTGOING = 263, 23
ETHERNET_BYTES = 14
SYN, RST = 2, 4
QUEUE_BYTES_MAX = 131_072
"""What a slow direction keeps; more is lost, as at a router."""


@dataclass(frozen=True)
class Conditions:
    """Those of one direction.

    `reset_after`: payload bytes after which a connection is reset, once for each connection.
    `is_forgotten`: connections that were made before are lost, new ones are carried.
    """

    delay_ms: float = 0.0
    loss: float = 0.0
    bits_per_s: float | None = None
    is_cut: bool = False
    reset_after: int | None = None
    is_forgotten: bool = False


@dataclass
class Segment:
    """A TCP segment over IPv4 in a frame."""

    frame: bytes
    at: int
    flow: tuple[bytes, bytes]
    flags: int
    payload: int

    @classmethod
    def of(cls, frame: bytes) -> Segment | None:
        if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
            return None
        at = ETHERNET_BYTES + (frame[ETHERNET_BYTES] & 15) * 4
        end = ETHERNET_BYTES + int.from_bytes(frame[16:18])
        header = (frame[at + 12] >> 4) * 4
        ends = frame[26:30] + frame[at : at + 2], frame[30:34] + frame[at + 2 : at + 4]
        return cls(frame, at, ends, frame[at + 13], end - at - header)

    def as_reset(self) -> bytes:
        """A frame by which the receiver is reset, as if the sender had sent it."""
        tcp = struct.pack(
            "!4s4s4sBBHHH", self.frame[self.at : self.at + 4],
            self.frame[self.at + 4 : self.at + 8], self.frame[self.at + 8 : self.at + 12],
            5 << 4, RST | 16, 0, 0, 0,
        )  # fmt: skip
        source, target = self.flow[0][:4], self.flow[1][:4]
        pseudo = source + target + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(tcp))
        tcp = tcp[:16] + _checksum(pseudo + tcp) + tcp[18:]
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0,
                         source, target)  # fmt: skip
        return self.frame[:ETHERNET_BYTES] + ip[:10] + _checksum(ip) + ip[12:] + tcp


def _checksum(content: bytes) -> bytes:
    total = sum(struct.unpack(f"!{len(content) // 2}H", content))
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)


@dataclass
class Direction:
    """From one machine to another: its conditions, and what was carried."""

    seed: str
    conditions: Conditions = Conditions()
    counts: Counter[str] = field(default_factory=Counter)
    free_s: float = 0.0
    old: frozenset[tuple[bytes, bytes]] = frozenset()
    bytes_of: Counter[tuple[bytes, bytes]] = field(default_factory=Counter)
    resets: set[tuple[bytes, bytes]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def change(self, conditions: Conditions) -> None:
        self.old = frozenset(self.bytes_of) if conditions.is_forgotten else frozenset()
        self.conditions, self.free_s = conditions, 0.0
        self.bytes_of.update(dict.fromkeys(self.bytes_of, 0))
        self.resets.clear()

    def carried(self, frame: bytes, now_s: float) -> tuple[float, bytes] | None:
        """When a frame arrives, and what arrives; None: nothing does."""
        now = self.conditions
        segment = Segment.of(frame)
        if segment is not None:
            self.bytes_of[segment.flow] += segment.payload
        if now.is_cut or (segment is not None and self._is_forgotten(segment)):
            self.counts["cut"] += 1
            return None
        if now.loss and self._random.random() < now.loss:
            self.counts["lost"] += 1
            return None
        if segment is not None and self._is_to_be_reset(segment):
            self.resets.add(segment.flow)
            self.counts["reset"] += 1
            frame = segment.as_reset()
        due_s = now_s
        if now.bits_per_s is not None:
            begins_s = max(now_s, self.free_s)
            if (begins_s - now_s) * now.bits_per_s / 8 > QUEUE_BYTES_MAX:
                self.counts["overflown"] += 1
                return None
            due_s = self.free_s = begins_s + len(frame) * 8 / now.bits_per_s
        self.counts["frames"] += 1
        self.counts["bytes"] += len(frame)
        return due_s + now.delay_ms / 1_000, frame

    def _is_forgotten(self, segment: Segment) -> bool:
        """Whether it is of a connection that the cable knows no longer."""
        if segment.flags & SYN:
            self.old -= {segment.flow}
        return segment.flow in self.old

    def _is_to_be_reset(self, segment: Segment) -> bool:
        limit = self.conditions.reset_after
        return (
            limit is not None
            and segment.payload > 0
            and segment.flow not in self.resets
            and self.bytes_of[segment.flow] >= limit
        )


class Ports:
    """The machines' ends: each frame is passed on to the machine that it is for, or to all."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sockets = {}
        for name in names:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
            opened.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
            opened.bind((name, 0))
            opened.setblocking(False)
            self._sockets[name] = opened
        self.directions = {
            (one, other): Direction(f"{one} {other}")
            for one in names for other in names if one != other
        }  # fmt: skip
        self._at: dict[bytes, str] = {}
        self._queue: list[tuple[float, int, str, bytes]] = []
        self._number = 0

    def register(self, selector: selectors.BaseSelector) -> None:
        for name, opened in self._sockets.items():
            selector.register(opened, selectors.EVENT_READ, name)

    def receive(self, name: str) -> None:
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = self._sockets[name].recv(FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            self._at[frame[6:12]] = name
            known = self._at.get(frame[:6])
            targets = [known] if known else [one for one in self._sockets if one != name]
            for target in targets:
                if target == name:
                    continue
                carried = self.directions[name, target].carried(frame, time.monotonic())
                if carried is not None:
                    self._number += 1
                    heapq.heappush(self._queue, (carried[0], self._number, target, carried[1]))

    def send(self) -> float | None:
        """Send what is due; in how many seconds the next one is."""
        now_s = time.monotonic()
        while self._queue and self._queue[0][0] <= now_s:
            _, _, target, frame = heapq.heappop(self._queue)
            try:
                self._sockets[target].send(frame)
            except OSError:  # its machine is being removed, or its buffer is full
                continue
        return max(0.0, self._queue[0][0] - now_s) if self._queue else None


def order(ports: Ports, request: dict[str, Any]) -> None:
    """Change the conditions of the directions that an order names."""
    for one, other, conditions in request["changes"]:
        ports.directions[one, other].change(Conditions(**conditions))


def main(names: Sequence[str]) -> None:
    ports = Ports(names)
    with selectors.DefaultSelector() as selector:
        ports.register(selector)
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        waits_s: float | None = None
        while True:
            for key, _ in selector.select(waits_s):
                if key.data is not None:
                    ports.receive(key.data)
                    continue
                line = os.read(sys.stdin.fileno(), 1 << 16)
                if not line:
                    return
                order(ports, json.loads(line))
                counts = [[*ends, d.counts] for ends, d in ports.directions.items()]
                print(json.dumps(counts), flush=True)
            waits_s = ports.send()


def changes_of(changes: Sequence[tuple[str, str, Conditions]]) -> str:
    """An order as a line."""
    return json.dumps({"changes": [(a, b, asdict(c)) for a, b, c in changes]}) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
