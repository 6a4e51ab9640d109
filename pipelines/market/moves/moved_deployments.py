"""What a move deploys: a provider computes a payer's fragment, and the payer imports its lines.

In both homes the moved fragment is a fragment of its own, under the number of the move; the
payer's own fragment and its lines stay as they are. The provider runs the payer's plan, so that its
engine must be the payer's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import IMPORT_PREFIX, import_fragment
from medusa_core.fragments import LANDING_PREFIX, MOVED_PREFIX, Fragment, Move
from medusa_core.grid import BEGINNING_US
from medusa_core.market.terms import OriginStream
from medusa_core.names import FIRST_EPOCH, NetworkName, Participant, PlanId, StreamName
from medusa_core.network import Network, Port, Source, functions_in
from medusa_core.plans import Plan
from medusa_core.segments import Producer
from medusa_core.trims import begins_us
from pipelines.base.foreign_documents import foreign_form
from pipelines.catalog.processing_roles import Deployments
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import (
    Assignment,
    Deployment,
    LineStatus,
    PlanRecord,
    StreamRecord,
)
from pipelines.homes.deployed_fragments import plan_in
from pipelines.homes.network_files import network_of_plan
from pipelines.language.check import CheckedNetwork, check_network, fragments_for
from pipelines.market.moves.move_order import TO_DO, WHAT, MovedInput, MoveOrder, document_of_order
from pipelines.spark.deployment import plan_of_widths, streams_of

KEPT_MS = 3_600_000
"""How long a provider keeps a stream that a move has brought, behind what it and the payer have yet
to read. A stream that was there before keeps its own retention."""

NO_BOXES = (IMPORT_PREFIX, LANDING_PREFIX, MOVED_PREFIX)
"""Fragments whose names begin so are computed for others, or have nothing to compute."""


class DeployedHome(Deployments, Lines, Protocol):
    """What is deployed in a home, and how its lines stand."""


@dataclass(frozen=True, slots=True)
class DeployedFragments:
    """What a home computes, by which plans, and how far its lines are, as it was read just now."""

    here: Participant
    assignments: Sequence[Assignment]
    plans: Mapping[PlanId, PlanRecord]
    lines: Mapping[StreamName, LineStatus]
    imported: Mapping[StreamName, LineStatus]

    def order_of(self, fragment: str, number: int) -> MoveOrder:
        """See `order_of`."""
        here = self.here
        assigned = [a for a in self.assignments if a.fragment == fragment]
        own = [a for a in assigned if a.producer.participant == here]
        if not own or fragment.startswith(NO_BOXES):
            raise Refused(f"{here} does not compute fragment {fragment}: name one that it computes")
        if len(assigned) > 1 or own[0].producer.replica:
            raise Refused(
                f"fragment {fragment} has several producers: move one that {here} computes alone"
            )
        plan = self.plans.get(own[0].plan)
        if plan is None:
            raise Conflict(f"the plan of {fragment} has changed meanwhile: read again")
        of_plan = _fragment_of(plan, fragment)
        if functions_in(of_plan.network):
            raise Refused(
                f"network {of_plan.network.name} calls functions, whose code does not move: move "
                "another fragment"
            )
        outputs = [self.lines[name] for name in of_plan.outputs if name in self.lines]
        if any(line.has_ended for line in outputs):
            raise Refused(f"fragment {fragment} has ended: nothing of it is left to compute")
        if len(outputs) < len(of_plan.outputs) or any(
            line.boundary_us == BEGINNING_US for line in outputs
        ):
            raise Refused(
                f"fragment {fragment} has computed nothing yet: move it once it has begun"
            )
        read = {**self.imported, **self.lines}
        inputs = (_input_of(of_plan, name, read.get(name)) for name in of_plan.input_streams)
        return MoveOrder(
            move=Move(here, number),
            fragment=fragment,
            plan=plan,
            inputs=tuple(inputs),
            starts_us=min(line.boundary_us for line in outputs),
        )

    def movable(self, fragments: Iterable[str]) -> Mapping[str, frozenset[OriginStream]]:
        """Those of some fragments that can be handed over as they are now, each with the streams of
        other participants that it reads."""
        found: dict[str, frozenset[OriginStream]] = {}
        for fragment in fragments:
            with contextlib.suppress(Refused, Conflict):
                order = self.order_of(fragment, 1)
                document_of_order(order)
                found[fragment] = frozenset(i.origin for i in order.inputs_from_others(self.here))
        return found


def deployed_fragments(home: DeployedHome) -> DeployedFragments:
    """What a home computes now."""
    here, lines = home.participant, home.lines()
    return DeployedFragments(
        here=here,
        assignments=home.assignments(),
        plans={record.id: record for record in home.plans()},
        lines={line.stream.name: line for line in lines if line.producer == Producer(here)},
        imported=_imported(here, lines),
    )


def _imported(here: Participant, lines: Sequence[LineStatus]) -> Mapping[StreamName, LineStatus]:
    """The partners' lines of streams that have one producer; of others, one is chosen bucket by
    bucket, which is not the provider's choice."""
    of_stream: dict[StreamName, list[LineStatus]] = {}
    for line in lines:
        if line.producer.participant != here or line.producer.is_import:
            of_stream.setdefault(line.stream.name, []).append(line)
    return {
        name: found[0]
        for name, found in of_stream.items()
        if len(found) == 1 and not found[0].producer.replica
    }


def order_of(home: DeployedHome, fragment: str, number: int) -> MoveOrder:
    """The order of a move of a fragment that a home computes, from the frontier on.

    Raises Refused for a fragment that is not computed here, has not begun, has ended, calls
    functions, or reads a stream that several producers compute; Conflict if what is deployed
    changes meanwhile.
    """
    return deployed_fragments(home).order_of(fragment, number)


def _input_of(fragment: Fragment, name: StreamName, line: LineStatus | None) -> MovedInput:
    if line is None:
        raise Refused(
            f"fragment {fragment.home_id} reads {name}, which several producers compute: move a "
            "fragment each of whose inputs has one"
        )
    return MovedInput(stream=line.stream, producer=line.producer)


def outputs_of(order: MoveOrder) -> frozenset[StreamName]:
    """The streams that the fragment of a move writes."""
    return frozenset(_fragment_of(order.plan, order.fragment).outputs)


def needed_by(order: MoveOrder) -> Mapping[StreamName, int]:
    """From when on the buckets of a move need each input: no window may end in the first."""
    return begins_us(_fragment_of(order.plan, order.fragment), order.starts_us)


def provider_deployments(
    home: DeployedHome, order: MoveOrder, directory: Path, earlier: Collection[int] = ()
) -> Sequence[Deployment]:
    """What the provider deploys, in this order: imports of inputs that it lacks, and the fragment.

    `earlier` are the numbers of other moves of the same fragment by the same payer. Raises Refused
    if this home's engine gives another plan, for an input that is not the plan's, and for a stream
    or network whose name this home has for something else. Whether the payer may have the inputs
    read is `check_inputs`.
    """
    with foreign_form(WHAT, TO_DO):
        return _provider_deployments(home, order, directory, earlier)


def _provider_deployments(
    home: DeployedHome, order: MoveOrder, directory: Path, earlier: Collection[int]
) -> Sequence[Deployment]:
    here = home.participant
    network = network_of_plan(plan_in(order.plan.document), directory)
    checked = check_network(network)
    plan = plan_of_widths(network, checked, plan_in(order.plan.document)["widths_us"], directory)
    if plan.id != order.plan.id:
        raise Refused(
            f"plan {order.plan.id[:12]} of network {network.name} is {plan.id[:12]} under the "
            f"engine of {here}: run the same versions as {order.move.payer}"
        )
    fragments = fragments_for(checked)
    fragment = next((f for f in fragments if f.id == order.fragment), None)
    if fragment is None or {one.stream.name for one in order.inputs} != set(fragment.input_streams):
        raise Refused(
            f"plan {order.plan.id[:12]} has no fragment {order.fragment} with these inputs"
        )
    records = {record.name: record for record in streams_of(checked, fragments, plan.widths_us)}
    known = home.lines()
    _check_shapes(order, network, checked, plan)
    _check_names(home, order, fragment, known, earlier)
    return (
        *_imports(home, order.inputs, known, directory),
        Deployment(
            network=NetworkName(network.name),
            document=plan.document,
            plan=plan.id,
            plan_document=plan.document,
            streams=(*_input_records(order, known), *(records[o] for o in fragment.outputs)),
            fragments={order.id: (fragment.input_streams, tuple(fragment.outputs))},
            assignments=(_assigned(order.id, Producer(here, order.replica), plan),),
            starts_us={order.id: order.starts_us},
            kept_ms=KEPT_MS,
        ),
    )


def check_inputs(
    order: MoveOrder, home: DeployedHome, reads: Collection[str], readable: Collection[str]
) -> None:
    """Refused for an input that the payer may not have this home read.

    These are its own, those of the provider that it may read (`readable`), and those of third
    participants that the contract in force names (`reads`): the provider's own rights are not
    lent to a payer beyond that.
    """
    here, payer = home.participant, order.move.payer
    own: set[StreamName] = set()
    if any(one.producer.participant == here for one in order.inputs):
        own = {line.stream.name for line in home.lines() if line.producer == Producer(here)}
    for one in order.inputs:
        if one.producer.replica:
            raise Refused(f"{WHAT} has an input that a replica computes: {TO_DO}")
        if one.producer.participant == payer:
            continue
        if one.producer.participant == here:
            # The same sentence whether or not the stream exists.
            if one.stream.name not in own or one.stream.name not in readable:
                raise Refused(
                    f"{payer} may not read stream {one.stream.name} of {here}, which the fragment "
                    f"reads: ask {here} to grant it"
                )
        elif one.origin not in reads:
            raise Refused(
                f"the contract does not let {here} read {one.origin} for {payer}: agree on it "
                "under reads, or move another fragment"
            )


def _input_records(order: MoveOrder, known: Sequence[LineStatus]) -> Iterator[StreamRecord]:
    """The inputs as they are in this home, where they are; Refused if they have another shape."""
    here = {line.stream.name: line.stream for line in known}
    for one in order.inputs:
        record = here.get(one.stream.name, one.stream)
        if replace(record, kind=one.stream.kind) != one.stream:
            raise Refused(f"{WHAT} has an input of another shape than this home has: {TO_DO}")
        yield record


def _check_shapes(order: MoveOrder, network: Network, checked: CheckedNetwork, plan: Plan) -> None:
    """Refused unless every input is as the plan reads it."""
    sources = {source.stream_name: Port(source.name) for source in network.sources}
    records = {r.name: r for r in streams_of(checked, fragments_for(checked), plan.widths_us)}
    for one in order.inputs:
        name = one.stream.name
        columns = (
            {c.name: c.type for c in checked.columns[sources[name]]}
            if name in sources
            else records[name].columns
        )
        if dict(one.stream.columns) != columns or one.stream.width_us != plan.widths_us[name]:
            raise Refused(f"{WHAT} has an input of another shape than its plan: {TO_DO}")


def _check_names(
    home: DeployedHome,
    order: MoveOrder,
    fragment: Fragment,
    known: Sequence[LineStatus],
    earlier: Collection[int],
) -> None:
    """Refused if this home has a network or stream of a name for something else.

    The sentence does not say what: the payer reads it.
    """
    here, payer = home.participant, order.move.payer
    assignments = home.assignments()
    own_plans = {a.plan for a in assignments if not a.fragment.startswith(MOVED_PREFIX)}
    networks = {record.network for record in home.plans() if record.id in own_plans}
    is_deployed = order.id in {a.fragment for a in assignments}
    by_moves = {Producer(here, number) for number in earlier}
    if is_deployed:
        by_moves.add(Producer(here, order.replica))
    allowed = dict.fromkeys(fragment.outputs, by_moves | {Producer(payer)})
    allowed |= {one.stream.name: by_moves | {one.producer} for one in order.inputs}
    others = [
        line.producer
        for line in known
        if line.stream.name in allowed and line.producer not in allowed[line.stream.name]
    ]
    if order.plan.network in networks or others:
        raise Refused(
            f"{here} has a network or stream of a name that fragment {order.fragment} uses: "
            "rename it, or move the fragment to another partner"
        )


def payer_deployment(home: DeployedHome, order: MoveOrder, provider: Participant) -> Deployment:
    """What the payer deploys to import the lines that the provider computes.

    The provider may read the inputs of this fragment here: those of others are not published here.
    """
    here = home.participant
    outputs = tuple(_fragment_of(order.plan, order.fragment).outputs)
    records = {line.stream.name: line.stream for line in home.lines()}
    imports = [import_fragment(output) for output in outputs]
    lines = {order.id: Producer(provider, order.replica)} | dict.fromkeys(imports, Producer(here))
    return Deployment(
        network=order.plan.network,
        document=order.plan.document,
        plan=order.plan.id,
        plan_document=order.plan.document,
        streams=tuple(records[output] for output in outputs),
        fragments={order.id: (order.payers_inputs, outputs), **dict.fromkeys(imports, ((), ()))},
        assignments=tuple(
            Assignment(fragment=name, producer=by, epoch=FIRST_EPOCH, plan=order.plan.id)
            for name, by in lines.items()
        ),
    )


def _fragment_of(record: PlanRecord, fragment: str) -> Fragment:
    return _fragment_in(record.document, fragment)


@lru_cache(maxsize=64)
def _fragment_in(document: str, fragment: str) -> Fragment:
    checked = check_network(network_of_plan(plan_in(document), Path()))
    return next(found for found in fragments_for(checked) if found.id == fragment)


def _imports(
    home: DeployedHome,
    inputs: Sequence[MovedInput],
    known: Sequence[LineStatus],
    directory: Path,
) -> Iterator[Deployment]:
    """Each brings the origin's line of an input into this home, unless it is imported already.

    Of a line that an earlier move has brought, the import was stopped with that move.
    """
    here, there = home.participant, {(line.stream.name, line.producer) for line in known}
    assigned = {a.fragment for a in home.assignments()}
    for one in inputs:
        record, by = one.stream, one.producer
        is_imported = (record.name, by) in there and import_fragment(record.name) in assigned
        if by.participant == here or is_imported:
            continue
        name = f"{by.participant}/{record.name}"
        network = Network(
            name=name,
            sources=(Source(name=record.name, stream=name, columns=record.columns),),
            boxes=(),
            outputs=(),
        )
        checked = check_network(network)
        plan = plan_of_widths(network, checked, {record.name: record.width_us}, directory)
        yield Deployment(
            network=NetworkName(name),
            document=plan.document,
            plan=plan.id,
            plan_document=plan.document,
            streams=(record,),
            fragments={name: ((), (record.name,)), import_fragment(record.name): ((), ())},
            assignments=(
                _assigned(name, by, plan),
                _assigned(import_fragment(record.name), Producer(here), plan),
            ),
            kept_ms=KEPT_MS,
        )


def _assigned(fragment: str, by: Producer, plan: Plan) -> Assignment:
    return Assignment(fragment=fragment, producer=by, epoch=FIRST_EPOCH, plan=plan.id)
