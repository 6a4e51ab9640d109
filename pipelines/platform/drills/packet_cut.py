"""A detached process that drops the packets of a link between two machines as long as a drill says.

`python -m pipelines.platform.drills.packet_cut ORDER PIPE`, with the order as JSON. It looks at the
drills of the folder, and ends when they no longer hold what it was started for: healed, replaced or
over. With it the kernel's rules end, however it ends. It writes `ready` to the pipe of this number
once packets are dropped, else one line that says why they are not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.foreign_documents import starting
from pipelines.base.settings import REPOSITORY, environment
from pipelines.platform.drills.link_faults import FILE, Lost, read_faults
from pipelines.platform.drills.packet_filter import Direction, PacketFilter, flows_between

MODULE = "pipelines.platform.drills.packet_cut"
READY = b"ready\n"
LOOK_S = 0.1
LINE_BYTES_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketCut:
    """What one participant and a partner on another machine send each other, and is to be lost.

    `addresses`: the partner's; `port`: that of its exchange server; `own_port`: that of the own
    one, None while it does not run.
    """

    directory: str
    here: str
    partner: str
    addresses: tuple[str, ...]
    port: int
    own_port: int | None
    until_s: float | None
    is_sent_lost: bool
    is_received_lost: bool

    @property
    def rows(self) -> tuple[Lost, ...]:
        """The drills for which packets are dropped."""
        here, partner = Participant(self.here), Participant(self.partner)
        sent = (Lost(here, partner, self.until_s),) if self.is_sent_lost else ()
        received = (Lost(partner, here, self.until_s),) if self.is_received_lost else ()
        return sent + received


def drop_packets(cut: PacketCut) -> None:
    """Start the process, in a session of its own; raises Unavailable if it may not drop packets.

    Its drills must be in the folder already.
    """
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as answer:
        with open(write_end, "wb"), starting("the process that drops packets"):
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, json.dumps(asdict(cut)), str(write_end)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=REPOSITORY,
                env={k: v for k, v in environment().items() if not k.startswith("MEDUSA_")},
                start_new_session=True,
                pass_fds=(write_end,),
            )
        line = answer.readline(LINE_BYTES_MAX)
    if line != READY:
        process.wait()
        reason = line.decode("utf-8", "replace").strip()
        raise Unavailable(reason or "packets cannot be dropped here: the drill has ended at once")


def main(text: str, pipe: int) -> None:
    """Drop the packets of the order until it is over."""
    order = json.loads(text)
    cut = PacketCut(**{**order, "addresses": tuple(order["addresses"])})
    flows = flows_between(
        [ip_address(address) for address in cut.addresses], cut.port, cut.own_port,
        _directions(cut),
    )  # fmt: skip
    try:
        opened = PacketFilter(flows)
    except MedusaError as error:
        os.write(pipe, f"{error}\n".encode())
        return
    with closing(opened):
        os.write(pipe, READY)
        os.close(pipe)
        while _holds(Path(cut.directory), cut.rows):
            clock.sleep_s(LOOK_S)


def _directions(cut: PacketCut) -> Sequence[Direction]:
    sent = [Direction.SENT] if cut.is_sent_lost else []
    return sent + ([Direction.RECEIVED] if cut.is_received_lost else [])


def _holds(directory: Path, rows: Sequence[Lost]) -> bool:
    """Whether the folder still has all of these drills; one that cannot be read has none."""
    try:
        faults = read_faults(directory / FILE).at(clock.wall_s())
    except Refused:
        return False
    return set(rows) <= set(faults.packets)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
