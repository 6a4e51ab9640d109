"""The state from which a live source continues after a landed batch, stored with the batch.

A record that waits for the next one to confirm it is in no file yet, so the state carries it
whole.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from medusa_core.errors import WRONG_FORM, Refused
from medusa_core.frozen import freeze
from medusa_core.lateness import LatenessState
from medusa_core.names import StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRecord:
    """A record without a verdict, where it came from, and its one row as an Arrow stream."""

    origin: str
    position: int
    row: bytes

    @classmethod
    def of(cls, origin: str, position: int, record: pa.Table) -> HeldRecord:
        """Hold the one row of a table."""
        assert record.num_rows == 1
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, record.schema) as writer:
            writer.write_table(record)
        return cls(origin=origin, position=position, row=sink.getvalue().to_pybytes())

    @property
    def record(self) -> pa.Table:
        """The row."""
        return pa.ipc.open_stream(self.row).read_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """Lateness so far, the record that is held, the clock when a record last came, and `at`.

    `at` is the source's own: how far it has read.
    """

    lateness: LatenessState = field(default_factory=LatenessState)
    held: HeldRecord | None = None
    seen_ms: int | None = None
    at: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "at")

    def to_json(self) -> str:
        """The state as JSON text."""
        held = self.held and {
            "origin": self.held.origin,
            "position": self.held.position,
            "row": b64encode(self.held.row).decode(),
        }
        return json.dumps(
            {
                "lateness": json.loads(self.lateness.to_json()),
                "held": held,
                "seen_ms": self.seen_ms,
                "at": dict(self.at),
            }
        )

    @classmethod
    def from_json(cls, stream: StreamName, text: str | None) -> LiveState:
        """The state that `to_json` wrote; raises Refused, naming the stream, for any other text."""
        try:
            found = json.loads(text or "")
            held = found["held"]
            return cls(
                lateness=LatenessState.from_json(json.dumps(found["lateness"])),
                held=held
                and HeldRecord(
                    origin=str(held["origin"]),
                    position=int(held["position"]),
                    row=b64decode(held["row"], validate=True),
                ),
                seen_ms=None if found["seen_ms"] is None else int(found["seen_ms"]),
                at=dict(found["at"]),
            )
        except (Refused, *WRONG_FORM):
            raise Refused(
                f"the last landed batch of {stream} has no state that its source can continue "
                "from: restore the catalog, or give the stream another name"
            ) from None
