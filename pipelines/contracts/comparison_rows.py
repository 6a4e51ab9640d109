"""The comparison of a home with its contracts, as lines of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum

from medusa_core.drops.utility import AfterDrop, Qos
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer
from pipelines.base.time_text import duration, iso
from pipelines.contracts.fields import listing
from pipelines.contracts.home_snapshot import EVERY_RECIPIENT, OWNER, Grant, HomeSnapshot
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.producer_numbers import Log
from pipelines.contracts.stream_bounds import NOTHING, Promise


class Mark(Enum):
    """How a thing stands against its contract; the value is what a table shows.

    LEFT is left alone: its owner has to decide.
    """

    NEW = "+"
    CHANGED = "~"
    SAME = "="
    LEFT = "!"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the table: a home, network, fragment, source, retention, sink, the readers of a
    stream, or some streams.
    """

    mark: Mark
    what: str
    name: str
    detail: str


def network_shown(
    network: PlacedNetwork,
    snapshot: HomeSnapshot,
    logs: Mapping[str, Log],
    starts_us: int | None,
) -> Iterator[Change]:
    """The network, its streams and its fragments."""
    shown = _network(network, snapshot, logs)
    if starts_us is not None:
        shown = replace(shown, detail=f"{shown.detail}, starts at {iso(starts_us)}")
    yield shown
    for mark in (Mark.NEW, Mark.SAME):
        names = [
            s.name for s in network.streams if (s.name in snapshot.streams) is (mark is Mark.SAME)
        ]
        if names:
            detail = f"{len(names)}: {', '.join(names)}"
            yield Change(mark=mark, what="streams", name=network.name, detail=detail)
    for fragment, log in logs.items():
        yield _fragment(network, fragment, snapshot, log)


def _network(network: PlacedNetwork, snapshot: HomeSnapshot, logs: Mapping[str, Log]) -> Change:
    plan = network.plan.id[:12]
    stand = [snapshot.log[fragment][-1] for fragment in logs if fragment in snapshot.log]
    older = [line.plan for line in stand if line.plan != network.plan.id]
    if older:
        from_us = {log[-1].from_us for log in logs.values()} - {None}
        begins = iso(max(at for at in from_us if at is not None)) if from_us else "the origin"
        mark, detail = Mark.CHANGED, f"plan {older[0][:12]} -> {plan} from {begins}"
    elif not stand:
        mark, detail = Mark.NEW, f"plan {plan}, buckets of {duration(network.width_us)}"
    else:
        mark, detail = Mark.SAME, f"plan {plan}, buckets of {duration(network.width_us)}"
    return Change(mark=mark, what="network", name=network.name, detail=detail)


def _fragment(network: PlacedNetwork, fragment: str, snapshot: HomeSnapshot, log: Log) -> Change:
    last = log[-1]
    if fragment not in snapshot.log:
        mark = Mark.NEW
    elif snapshot.log[fragment] != log or not is_wired(network, fragment, snapshot):
        mark = Mark.CHANGED
    else:
        mark = Mark.SAME
    begins = "" if last.from_us is None else f" from {iso(last.from_us)}"
    detail = f"epoch {last.epoch}{begins}"
    if not fragment.startswith(IMPORT_PREFIX):
        detail = f"{_computed(log, snapshot.log.get(fragment, ()))}, {detail}"
    elif last.producer.is_import:
        (stream,) = network.wires(fragment)[1]
        detail = f"chosen among {listing(network.writers_of(stream))}, {detail}"
    return Change(mark=mark, what="fragment", name=fragment, detail=detail)


def _computed(log: Log, current: Log) -> str:
    """Who computes a fragment, as which replica, or who comes to it late."""
    replicas = sorted({line.producer for line in log}, key=lambda producer: producer.replica)
    if len(replicas) == 1:
        return f"by {replicas[0].participant}"
    known = [producer for producer in replicas if producer in {line.producer for line in current}]
    late = [producer for producer in replicas if producer not in known]
    if not known or not late:
        return f"by {_names(replicas)} ({_numbers(replicas)})"
    joins = "joins" if len(late) == 1 else "join"
    return f"{_names(late)} {joins} {_names(known)} as {_numbers(late)}"


def _names(replicas: Sequence[Producer]) -> str:
    return listing([producer.participant for producer in replicas])


def _numbers(replicas: Sequence[Producer]) -> str:
    noun = "replica" if len(replicas) == 1 else "replicas"
    return f"{noun} {listing([str(producer.replica) for producer in replicas])}"


def source_shown(stream: StreamName, document: str, snapshot: HomeSnapshot) -> Change:
    """What feeds a source that is landed here."""
    mark = Mark.SAME if snapshot.sources.get(stream) == document else Mark.CHANGED
    if stream not in snapshot.sources:
        mark = Mark.NEW
    return Change(mark=mark, what="source", name=stream, detail=document)


def retention_shown(
    stream: StreamName, declared_ms: int | None, snapshot: HomeSnapshot
) -> Iterator[Change]:
    """Nothing to tell of a stream that is kept for good, and was."""
    current_ms = snapshot.retentions.get(stream)
    if declared_ms is None and current_ms is None:
        return
    mark = Mark.SAME if current_ms == declared_ms else Mark.CHANGED
    if current_ms is None:
        mark = Mark.NEW
    kept = [_kept(ms) for ms in dict.fromkeys((current_ms, declared_ms))]
    detail = " -> ".join(kept) if mark is Mark.CHANGED else _kept(declared_ms)
    yield Change(mark=mark, what="retention", name=stream, detail=detail)


def promise_shown(stream: StreamName, promise: Promise, snapshot: HomeSnapshot) -> Iterator[Change]:
    """Nothing to tell of a stream within no bound that never was within one."""
    current = snapshot.promises.get(stream, NOTHING)
    if current == promise:
        if promise.bound is not None:
            yield Change(mark=Mark.SAME, what="bound", name=stream, detail=str(promise))
    elif current == NOTHING:
        yield Change(mark=Mark.NEW, what="bound", name=stream, detail=str(promise))
    else:
        detail = f"{current} -> {promise}"
        yield Change(mark=Mark.CHANGED, what="bound", name=stream, detail=detail)


def verify_shown(
    stream: StreamName, count: int, writers: Sequence[Participant], snapshot: HomeSnapshot
) -> Iterator[Change]:
    """Nothing to tell of a stream that is taken from any producer, and was."""
    current = snapshot.verified.get(stream, 1)
    if count == current == 1:
        return
    mark = Mark.SAME if current == count else Mark.CHANGED
    if current == 1:
        mark = Mark.NEW
    detail = f"{count} of {len(writers)} producers must agree"
    if mark is Mark.CHANGED:
        detail = f"{current} -> {detail}"
    yield Change(mark=mark, what="verify", name=stream, detail=detail)


def following_shown(stream: StreamName, follows: bool, snapshot: HomeSnapshot) -> Iterator[Change]:
    """Nothing to tell of a stream whose revisions an operator is asked about, and was."""
    current = stream in snapshot.followings
    if not follows and not current:
        return
    mark = Mark.SAME if current == follows else Mark.NEW if follows else Mark.CHANGED
    detail = "follow" if follows else "follow -> stop"
    yield Change(mark=mark, what="on_revision", name=stream, detail=detail)


def qos_shown(stream: StreamName, qos: Qos | None, snapshot: HomeSnapshot) -> Iterator[Change]:
    """Yields nothing if no record of the stream may be dropped, before or after."""
    current = snapshot.qos.get(stream)
    if qos is None and current is None:
        return
    mark = Mark.SAME if qos == current else Mark.CHANGED if current else Mark.NEW
    yield Change(mark=mark, what="qos", name=stream, detail=_qos(qos))


def _qos(qos: Qos | None) -> str:
    if qos is None:
        return "nothing is dropped any more"
    after = "corrects it later" if qos.after is AfterDrop.CORRECT else "leaves a gap"
    shape = "" if qos.loss.is_concave else ", whose loss graph is not concave: drops come in leaps"
    return f"an overload of {duration(int(qos.good_ms * 1_000))} drops records, and {after}{shape}"


def readers_shown(
    stream: StreamName,
    shall_be: Set[Grant],
    is_now: Set[Grant],
    left_out: Collection[Participant] = (),
) -> Iterator[Change]:
    """Who may read a stream by the contracts; no line if nobody may and nobody might.

    `left_out` are readers by the contracts that were removed from the home. What the owner granted
    by hand stays, and is not shown.
    """
    declared = {grant for grant in is_now if grant.reason != OWNER}
    readers, before = ({grant.partner for grant in grants} for grants in (shall_be, declared))
    if not readers and not before and not left_out:
        return
    mark = Mark.SAME if shall_be == declared else Mark.CHANGED
    if readers and not before:
        mark = Mark.NEW
    parts = [listing(sorted(readers)) if readers else "nobody"]
    if before and (new := readers - before):
        parts.append(f"(new: {listing(sorted(new))})")
    if ended := before - readers:
        parts.append(f"(ended: {listing(sorted(ended))})")
    if left_out:
        parts.append(f"(left out: {listing(sorted(left_out))}, removed)")
    yield Change(mark=mark, what="readers", name=stream, detail=" ".join(parts))


def recipients_shown(stream: StreamName, shall_be: Set[str], is_now: Set[str]) -> Iterator[Change]:
    """Which recipients may read a stream by the contracts; no line if none may and none might."""
    if not shall_be and not is_now:
        return
    mark = Mark.SAME if shall_be == is_now else Mark.CHANGED if is_now else Mark.NEW
    named = ["every recipient" if name == EVERY_RECIPIENT else name for name in sorted(shall_be)]
    yield Change(
        mark=mark, what="recipients", name=stream, detail=listing(named) if named else "nobody"
    )


def _kept(retention_ms: int | None) -> str:
    return "for good" if retention_ms is None else duration(retention_ms * 1_000)


def is_wired(network: PlacedNetwork, fragment: str, snapshot: HomeSnapshot) -> bool:
    """Whether a fragment stands with the streams that it shall read and write."""
    deployed = snapshot.fragments.get(fragment)
    return deployed is not None and (deployed.inputs, deployed.outputs) == network.wires(fragment)
