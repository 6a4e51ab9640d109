"""The order of a move as a document: the payer's plan, its inputs, and the first bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused
from medusa_core.fragments import Move, moved_fragment
from medusa_core.grid import TIME_US_MIN
from medusa_core.market.moves import ORDER_BYTES_MAX
from medusa_core.market.terms import OriginStream, origin_stream
from medusa_core.names import (
    NetworkName,
    Participant,
    PlanId,
    StreamName,
    check_name,
)
from medusa_core.plans import fingerprint_of
from medusa_core.segments import Producer
from pipelines.base.foreign_documents import foreign_form, parse_json
from pipelines.catalog.records import PlanRecord, StreamRecord

FORMAT = "medusa.move/1"
WHAT, TO_DO = "the order of a move", "call the payer's operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedInput:
    """A stream that a moved fragment reads, and the line of it that its payer reads."""

    stream: StreamRecord
    producer: Producer

    @property
    def origin(self) -> OriginStream:
        """The stream as it is named after the home that publishes it."""
        return origin_stream(self.producer.participant, self.stream.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOrder:
    """What a provider needs to compute a fragment: the payer's plan, inputs, and where to start."""

    move: Move
    fragment: str
    plan: PlanRecord
    inputs: tuple[MovedInput, ...]
    starts_us: int

    @property
    def id(self) -> str:
        """The moved fragment."""
        return moved_fragment(self.fragment, self.move)

    @property
    def payers_inputs(self) -> tuple[StreamName, ...]:
        """The inputs that the payer itself lands or computes."""
        payer = self.move.payer
        return tuple(i.stream.name for i in self.inputs if i.producer.participant == payer)

    def inputs_from_others(self, here: Participant) -> tuple[MovedInput, ...]:
        """The inputs that neither the payer nor `here` lands or computes."""
        known = (self.move.payer, here)
        return tuple(one for one in self.inputs if one.producer.participant not in known)

    @property
    def replica(self) -> int:
        """The provider's replica number; its lines of other moves have others."""
        return self.move.number


def document_of_order(order: MoveOrder) -> str:
    """The order as JSON; Refused if it is too long for a message."""
    fields = {
        "format": FORMAT,
        "plan": {
            "id": order.plan.id,
            "network": order.plan.network,
            "document": order.plan.document,
        },
        "inputs": [
            {
                "stream": one.stream.name,
                "kind": one.stream.kind,
                "width_us": one.stream.width_us,
                "columns": [[name, type_] for name, type_ in one.stream.columns.items()],
                "key": list(one.stream.key),
                "participant": one.producer.participant,
                "replica": one.producer.replica,
            }
            for one in order.inputs
        ],
        "starts_us": order.starts_us,
    }
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    if len(text.encode()) > ORDER_BYTES_MAX:
        raise Refused(
            f"the plan of network {order.plan.network} is longer than "
            f"{ORDER_BYTES_MAX // 1024} KiB and does not fit a message: split the network"
        )
    return text


def order_in(text: str, move: Move, fragment: str) -> MoveOrder:
    """The order in a document; Refused for anything else, whatever the partner sent."""
    given = parse_json(text, WHAT, TO_DO)
    with foreign_form(WHAT, TO_DO):
        if set(given) != {"format", "plan", "inputs", "starts_us"} or given["format"] != FORMAT:
            raise Refused(f"{WHAT} has other fields than {FORMAT}: {TO_DO}")
        plan = given["plan"]
        if fingerprint_of(str(plan["document"])) != plan["id"]:
            raise Refused(f"{WHAT} has a plan with another fingerprint: {TO_DO}")
        return MoveOrder(
            move=move,
            fragment=fragment,
            plan=PlanRecord(
                id=PlanId(plan["id"]),
                network=NetworkName(check_name("network", plan["network"])),
                document=plan["document"],
            ),
            inputs=tuple(_input(one) for one in given["inputs"]),
            starts_us=_time(given["starts_us"]),
        )


def _input(given: Mapping[str, Any]) -> MovedInput:
    kind = given["kind"]
    if kind not in ("source", "derived"):
        raise ValueError("no kind of stream")
    return MovedInput(
        stream=StreamRecord(
            name=StreamName(check_name("stream", given["stream"])),
            kind=kind,
            width_us=_whole(given["width_us"]),
            columns={str(name): str(type_) for name, type_ in given["columns"]},
            key=tuple(map(str, given["key"])),
        ),
        producer=Producer(
            Participant(check_name("participant", given["participant"])),
            _whole(given["replica"]),
        ),
    )


def _time(given: object) -> int:
    if type(given) is int and TIME_US_MIN <= given < 2**63:
        return given
    raise ValueError("no time")


def _whole(given: object) -> int:
    if type(given) is int and 0 <= given < 2**63:
        return given
    raise ValueError("no whole number")
