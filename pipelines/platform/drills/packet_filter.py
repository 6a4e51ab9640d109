"""Packets of named flows, dropped by the kernel as long as this process has the filter open.

The filter is a table of nf_tables that belongs to a netlink socket: the kernel removes it with the
socket, also when the process is killed. A rule names an address and a port, so that nothing else of
the machine is touched. Linux, and root of the network namespace, are needed; no program is.
Numbers: linux/netfilter/nf_tables.h and nfnetlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address

from medusa_core.errors import Unavailable

NETLINK_NETFILTER, NFNL_SUBSYS_NFTABLES = 12, 10
BATCH_BEGIN, BATCH_END = 0x10, 0x11
NEW_TABLE, NEW_CHAIN, NEW_RULE = 0, 3, 6
REQUEST, ACKNOWLEDGE, CREATE, EXCLUSIVE, APPEND = 1, 4, 0x400, 0x200, 0x800
NLMSG_ERROR = 2
NESTED = 0x8000
INET, IPV4, IPV6, TCP = 1, 2, 10, 6
OWNED = 2
META_PROTOCOL_FAMILY, META_TRANSPORT = 15, 16
NETWORK_HEADER, TRANSPORT_HEADER = 1, 2
RECEIVED_BYTES_MAX, ANSWER_S_MAX = 65_536, 10


class Direction(Enum):
    """The kernel's hooks, by the names of their chains."""

    RECEIVED = "input", 1
    SENT = "output", 3


@dataclass(frozen=True, slots=True)
class Flow:
    """TCP segments to or from an address, with a port at one end.

    `is_there`: the port is that of the address; else it is this machine's.
    """

    direction: Direction
    address: IPv4Address | IPv6Address
    port: int
    is_there: bool


class PacketFilter:
    """Drops all packets of some flows until it is closed; raises Unavailable if it may not."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        table = f"medusa-drill-{os.getpid()}"
        messages = [_message(NEW_TABLE, CREATE | EXCLUSIVE, _text(1, table), _number(2, OWNED))]
        for direction in Direction:
            chain, hook = direction.value
            messages.append(
                _message(
                    NEW_CHAIN, CREATE, _text(1, table), _text(3, chain), _text(7, "filter"),
                    _nested(4, _number(1, hook), _number(2, 0)),
                )
            )  # fmt: skip
        messages += [_rule(table, flow) for flow in flows]
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        except (OSError, AttributeError) as error:
            raise _not_permitted(str(error)) from error
        try:
            self._socket.bind((0, 0))
            self._socket.settimeout(ANSWER_S_MAX)
            self._send(messages)
        except OSError as error:
            self._socket.close()
            raise _not_permitted(error.strerror or str(error)) from error

    def close(self) -> None:
        """Let the packets pass again."""
        self._socket.close()

    def _send(self, messages: Sequence[bytes]) -> None:
        """Send all in one transaction; raises OSError with the kernel's reason."""
        numbered = [_batch(BATCH_BEGIN), *messages, _batch(BATCH_END)]
        self._socket.send(b"".join(_with_number(m, n) for n, m in enumerate(numbered)))
        left = len(messages)
        while left:
            received = self._socket.recv(RECEIVED_BYTES_MAX)
            while len(received) >= 20:
                size, kind = struct.unpack_from("=IH", received)
                (code,) = struct.unpack_from("=i", received, 16)
                if kind == NLMSG_ERROR:
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    left -= 1
                received = received[(size + 3) & ~3 :]


def _not_permitted(reason: str) -> Unavailable:
    return Unavailable(f"packets cannot be dropped here ({reason}): run the drill as root on Linux")


def _rule(table: str, flow: Flow) -> bytes:
    is_sent, is_v4 = flow.direction is Direction.SENT, flow.address.version == 4
    offsets = (12, 16) if is_v4 else (8, 24)
    port_is_target = is_sent == flow.is_there
    expressions = [
        _meta(META_PROTOCOL_FAMILY),
        _equal(bytes([IPV4 if is_v4 else IPV6])),
        _meta(META_TRANSPORT),
        _equal(bytes([TCP])),
        _payload(NETWORK_HEADER, offsets[is_sent], len(flow.address.packed)),
        _equal(flow.address.packed),
        _payload(TRANSPORT_HEADER, 2 if port_is_target else 0, 2),
        _equal(struct.pack("!H", flow.port)),
        _expression("immediate", _number(1, 0), _nested(2, _nested(2, _number(1, 0)))),  # drop
    ]
    return _message(
        NEW_RULE, CREATE | APPEND, _text(1, table), _text(2, flow.direction.value[0]),
        _nested(4, *expressions),
    )  # fmt: skip


# Expressions: each loads into the first register, or compares with it.


def _meta(key: int) -> bytes:
    return _expression("meta", _number(2, key), _number(1, 1))


def _payload(base: int, offset: int, size: int) -> bytes:
    return _expression(
        "payload", _number(1, 1), _number(2, base), _number(3, offset), _number(4, size)
    )


def _equal(value: bytes) -> bytes:
    return _expression("cmp", _number(1, 1), _number(2, 0), _nested(3, _attribute(1, value)))


def _expression(name: str, *attributes: bytes) -> bytes:
    return _nested(1, _text(1, name), _nested(2, *attributes))


# Messages of netlink.


def _message(kind: int, flags: int, *attributes: bytes) -> bytes:
    body = struct.pack("!BBH", INET, 0, 0) + b"".join(attributes)
    return _headed(NFNL_SUBSYS_NFTABLES << 8 | kind, REQUEST | ACKNOWLEDGE | flags, body)


def _batch(kind: int) -> bytes:
    return _headed(kind, REQUEST, struct.pack("!BBH", 0, 0, NFNL_SUBSYS_NFTABLES))


def _headed(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body


def _with_number(message: bytes, number: int) -> bytes:
    return message[:8] + struct.pack("=I", number) + message[12:]


def _attribute(kind: int, value: bytes) -> bytes:
    padding = bytes(-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), kind) + value + padding


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("!I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _nested(kind: int, *attributes: bytes) -> bytes:
    return _attribute(kind | NESTED, b"".join(attributes))


def flows_between(
    theirs: Iterable[IPv4Address | IPv6Address], their_port: int, own_port: int | None,
    directions: Iterable[Direction],
) -> tuple[Flow, ...]:  # fmt: skip
    """All that two participants send each other at these addresses, in some directions.

    `own_port`: that of this machine's exchange server; None while there is none.
    """
    return tuple(
        Flow(direction, address, port, is_there)
        for address in theirs
        for direction in directions
        for port, is_there in ((their_port, True), (own_port, False))
        if port is not None
    )
