"""Definitions of boxes: send one to the seller of a stream, withdraw it, list what a home knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.market.definitions import definition_of, network_of_definition
from medusa_core.market.terms import Content
from medusa_core.names import Participant, StreamName
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.definition_store import DefinitionStatus
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.postgres.definitions import PostgresDefinitions, open_definitions
from pipelines.homes.home import chosen_participant, home_server
from pipelines.language.check import check_network
from pipelines.language.load import load_network


@dataclass(frozen=True, slots=True, kw_only=True)
class DefineRequest:
    """Define the boxes of a network (file or shipped) under a content contract of `participant`."""

    participant: str | None
    contract: str
    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A definition that was sent, and the stream that its boxes write at the seller."""

    name: StreamName
    provider: Participant
    stream: StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionList:
    """The definitions that a home knows: its own, and those of its buyers."""

    participant: Participant
    definitions: tuple[DefinitionStatus, ...]


def define(settings: Settings, request: DefineRequest) -> Defined:
    """Check a definition as its seller will, and send it with the next exchange of messages.

    Raises Refused for a network that cannot be defined, for a contract that does not let this
    participant define its boxes, and for a name that was used before.
    """
    network = load_network(request.network)
    participant = chosen_participant(settings, request.participant)
    with _opened(settings, participant) as (url, definitions):
        with closing(PostgresAgreements(url, participant)) as agreements:
            agreed = agreements.agreed()
        terms = next((one for name, one in agreed.items() if name == request.contract), None)
        if terms is None:
            hint = did_you_mean(request.contract, agreed, f"it has {', '.join(agreed) or 'none'}")
            raise Refused(f"{participant} has no contract {request.contract!r}: {hint}")
        content = terms.subject
        if not isinstance(content, Content) or content.boxes is None or (
            terms.payer != participant
        ):  # fmt: skip
            raise Refused(
                f"contract {terms.contract} does not let {participant} define boxes: name a "
                "content contract with boxes in which it is the payer"
            )
        definition = definition_of(network, terms.contract, terms.provider, content.stream)
        defined = network_of_definition(
            definition, participant, content.stream, network.sources[0].columns, content.boxes
        )
        check_network(defined)
        definitions.define(definition)
        stream = StreamName(defined.outputs[0].name)
        return Defined(name=definition.name, provider=terms.provider, stream=stream)


def withdraw(settings: Settings, participant: str | None, name: str) -> None:
    """End a definition of the participant; Refused if there is none, or if it has ended."""
    chosen = chosen_participant(settings, participant)
    with _opened(settings, chosen) as (_, definitions):
        if not definitions.withdraw(name):
            known = [
                one.name
                for one in definitions.statuses()
                if one.buyer == chosen and one.state in ("sent", "running")
            ]
            hint = did_you_mean(name, known, f"there is {', '.join(known) or 'none'}")
            raise Refused(f"{chosen} has no definition {name!r} that runs: {hint}")


def list_definitions(settings: Settings, participant: str | None) -> DefinitionList:
    """The definitions that a home knows."""
    chosen = chosen_participant(settings, participant)
    with _opened(settings, chosen) as (_, definitions):
        return DefinitionList(participant=chosen, definitions=definitions.statuses())


@contextmanager
def _opened(
    settings: Settings, participant: Participant
) -> Iterator[tuple[str, PostgresDefinitions]]:
    with home_server(settings, participant) as server:
        url = server.login_url("job")
        with closing(open_definitions(url)) as definitions:
            yield url, definitions
