"""Deliver what is stable now to the sinks of a home, once; declare or withdraw a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.errors import MedusaError, Refused
from medusa_core.names import Participant, StreamName
from medusa_core.sinks import SinkRecord
from pipelines.base.settings import Settings
from pipelines.homes.home import Home, chosen_participant, open_home
from pipelines.sinks.delivery import DeliveryResult
from pipelines.sinks.delivery_workers import deliver_once
from pipelines.sinks.registration import declare, sinks_declared, target_of
from pipelines.sinks.sink_declaration import document_of, parse_sink


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRequest:
    """Which sinks of which home; None: the only home, the sinks of all streams, all sinks.

    A `declaration` (kind, target, key, from) declares the sink first; it needs the stream, and the
    sink's name is by default its kind.
    """

    participant: str | None = None
    stream: str | None = None
    sink: str | None = None
    declaration: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkDelivery:
    """One sink after the delivery: how many rows it received, and the error that ended it."""

    sink: SinkRecord
    rows: int
    error: MedusaError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkDeliveryResult:
    """The sinks of a home after the delivery, and the failures in the order they occurred."""

    participant: Participant
    sinks: tuple[SinkDelivery, ...]
    failures: tuple[MedusaError, ...]


def deliver(
    settings: Settings, request: DeliveryRequest, environ: Mapping[str, str]
) -> SinkDeliveryResult:
    """Deliver to each sink what is stable and not delivered yet.

    `environ` holds the secrets that targets name. Raises Refused for an unknown stream or sink and
    for a declaration that would move a sink; a sink that fails stops no other one.
    """
    with open_home(settings, chosen_participant(settings, request.participant)) as home:
        name = _declared(home, request)
        sinks = sinks_declared(home.catalog, request.stream, name)
        rows = dict.fromkeys(((s.stream, s.name) for s in sinks), 0)

        def count(result: DeliveryResult) -> None:
            if result.run is not None:
                rows[result.sink.stream, result.sink.name] += result.run.rows

        failed = deliver_once(home.catalog, home.storage, home.directory, sinks, environ, count)
        errors = {(sink.stream, sink.name): error for sink, error in failed}
        keys = ((sink, (sink.stream, sink.name)) for sink in home.catalog.sinks())
        return SinkDeliveryResult(
            participant=home.participant,
            sinks=tuple(
                SinkDelivery(sink=sink, rows=rows[key], error=errors.get(key))
                for sink, key in keys
                if key in rows
            ),
            failures=tuple(error for _, error in failed),
        )


def withdraw(
    settings: Settings, participant: str | None, stream: str, sink: str
) -> tuple[SinkRecord, ...]:
    """End the deliveries to a sink; what it received stays. Refused if there is no such sink."""
    with open_home(settings, chosen_participant(settings, participant)) as home:
        sinks = tuple(sinks_declared(home.catalog, stream, sink))
        for one in sinks:
            home.catalog.withdraw_sink(one.stream, one.name)
    return sinks


def _declared(home: Home, request: DeliveryRequest) -> str | None:
    """Declare the sink of the request, if it declares one; returns the name to deliver to."""
    declaration = request.declaration
    if declaration is None:
        return request.sink
    if request.stream is None:
        raise Refused(f"a {declaration['kind']} sink needs the stream to deliver: name it")
    stream, name = StreamName(request.stream), request.sink or str(declaration["kind"])
    document = document_of(declaration)
    _check_target(home, stream, name, document)
    declare(home.catalog, stream, name, document)
    return name


def _check_target(home: Home, stream: StreamName, name: str, document: str) -> None:
    """Refused if the sink exists with another target, which would receive nothing any more."""
    declared = parse_sink(stream, document)
    for sink in home.catalog.sinks():
        if (sink.stream, sink.name) != (stream, name):
            continue
        existing = parse_sink(stream, sink.document)
        if target_of(existing) != target_of(declared):
            raise Refused(
                f"sink {name} of {stream} delivers into {existing.target} already: give another "
                f"--sink NAME for a second one, or end that one first with --stream {stream} "
                f"--sink {name} --withdraw"
            )
