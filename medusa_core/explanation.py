"""What a network does, as data: the ranges that its outputs need, what they wait for, their cost.

Worked example. Windows of 60 s over a stream, joined with another one by `within=("-5s", "10s")`
and `how="left"`: a row at t is made of windows that end in [t - 10 s, t], so that it needs the
stream from t - 70 s on; and of rows of the other stream in [t - 15 s, t].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from medusa_core.box_costs import COEFFICIENTS_US, READ_US, cost_kind, rows_out
from medusa_core.fragments import Fragment
from medusa_core.names import FragmentName, StreamName
from medusa_core.network import Network, inputs_of


class InputPolicy(Enum):
    """What an output does while an input is missing."""

    WAITS_ALONE = "waits: it is made of nothing else"
    WAITS = "waits: without it, rows would be wrong"
    WAITS_AS_OTHERS = "waits: another stream of the fragment would be wrong without it"
    ANSWERS = "within a bound, tentative rows without it, then corrected"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReach:
    """The part of an input that an output row at t is computed from, at most.

    It begins `back_us` before t and ends `delay_us` before t; `without` is what a missing input
    does.
    """

    stream: StreamName
    back_us: int
    delay_us: int
    without: InputPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedOutput:
    """A stream that a fragment writes, and what each input of the fragment is to it."""

    stream: StreamName
    fragment: FragmentName
    inputs: tuple[InputReach, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedBox:
    """A box, and what it costs.

    `records`: how many it reads for each record of the sources, at most; `cost_us`: CPU for each of
    these, None where it cannot be said; `can_fail`: records on which it fails are put into
    quarantine.
    """

    name: str
    kind: str
    fragment: FragmentName
    inputs: tuple[str, ...]
    records: float
    cost_us: float | None
    can_fail: bool

    @property
    def share_us(self) -> float:
        """CPU of the box for each record of the sources; 0 where it cannot be said."""
        return self.records * (self.cost_us or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A network as it is computed: its boxes in the order of the arcs, and the streams written.

    `read_us`: CPU to bring records to the fragments, for each record of the sources.
    """

    network: Network
    boxes: tuple[ExplainedBox, ...]
    outputs: tuple[ExplainedOutput, ...]
    read_us: float

    @property
    def cost_us(self) -> float:
        """CPU for each record of the sources, all boxes and all reading together."""
        return self.read_us + sum(box.share_us for box in self.boxes)

    @property
    def has_unknown_cost(self) -> bool:
        """Whether the cost lacks a box about which nothing can be said."""
        return any(box.cost_us is None for box in self.boxes)


def explain(
    network: Network, fragments: Collection[Fragment], fallible: Collection[str] = ()
) -> Explanation:
    """What the fragments of a network compute; `fallible` are the boxes that can fail on a record.

    The records of the sources are shared out evenly.
    """
    records = {source.name: 1 / len(network.sources) for source in network.sources}
    boxes = []
    for name in network.order:
        box = network.box(name)
        read = sum(records[network.port(r, name).owner] for r in inputs_of(box))
        records[name] = rows_out(box, read)
        kind = cost_kind(box)
        boxes.append(
            ExplainedBox(
                name=name,
                kind=type(box).__name__,
                fragment=FragmentName(box.fragment),
                inputs=inputs_of(box),
                records=read,
                cost_us=None if kind is None else COEFFICIENTS_US[kind],
                can_fail=name in fallible,
            )
        )
    inputs = [port.owner for fragment in fragments for port in fragment.inputs]
    return Explanation(
        network=network,
        boxes=tuple(boxes),
        outputs=tuple(
            ExplainedOutput(stream=name, fragment=f.name, inputs=_inputs(f, name))
            for f in fragments
            for name in f.outputs
        ),
        read_us=READ_US * sum(records[owner] for owner in inputs),
    )


def _inputs(fragment: Fragment, output: StreamName) -> tuple[InputReach, ...]:
    found: Mapping[StreamName, tuple[int, int]] = fragment.reaches(output)
    waits, waits_itself = fragment.waited_for, fragment.waited_for_by(output)

    def without(stream: StreamName) -> InputPolicy:
        if len(fragment.input_streams) == 1:
            return InputPolicy.WAITS_ALONE
        if stream in waits_itself:
            return InputPolicy.WAITS
        # All outputs of a fragment are answered at a time.
        return InputPolicy.WAITS_AS_OTHERS if stream in waits else InputPolicy.ANSWERS

    return tuple(
        InputReach(stream=stream, back_us=back_us, delay_us=delay_us, without=without(stream))
        for stream, (back_us, delay_us) in found.items()
    )
