"""Operators of `medusa_alarms`: one sends what is new and what is over, one is red meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, Context
from airflow.sdk.exceptions import DownstreamTasksSkipped

from medusa_core.errors import CheckFailed, MedusaError
from medusa_core.suggest import counted
from pipelines.airflow import alarm_channels
from pipelines.airflow.alarm_channels import Message
from pipelines.airflow.medusa_operator import MedusaOperator
from pipelines.airflow.task_links import page_address

if TYPE_CHECKING:
    from pipelines.base.settings import Settings
    from pipelines.pages.open_findings import FindingChanges, OpenFindings

EVENTS = "events"
PAGE = "/medusa/to-do"


class AlarmsOperator(MedusaOperator):
    """Sends what has changed among the findings since the last message to each channel.

    The channels: events of an asset, which DAGs can be scheduled by, and the connections of
    `alarm_channels`. What was sent to each is kept with the asset. A channel that is away receives
    it at the next run. Returns the sentences of what is bad, for the task `red`, which is skipped
    if there are none.
    """

    def __init__(self, *, asset: Asset, alias: AssetAlias, red: str, **kwargs: Any) -> None:
        super().__init__(inlets=[asset], outlets=[alias], **kwargs)
        self.asset = asset
        self.alias = alias
        self.red = red

    def act(self, settings: Settings, context: Context) -> Sequence[str]:
        from pipelines.pages.open_findings import finding_sentence, open_findings

        found = open_findings(settings)
        self.say(*map(finding_sentence, found.findings))
        problems = []
        # The event of the asset is sent last: it is lost if the task fails after it.
        for channel in (*alarm_channels.channels(), EVENTS):
            try:
                self._report(channel, found, context)
            except MedusaError as error:
                self.log.error("%s", error)
                problems.append(str(error))
        bad = [finding_sentence(one) for one in found.findings if one["level"] == "bad"]
        if not bad and not problems:
            # No worker is started to say that all is well.
            raise DownstreamTasksSkipped(tasks=[self.red])  # type: ignore[no-untyped-call]
        return [*bad, *problems]

    def _report(self, channel: str, found: OpenFindings, context: Context) -> None:
        """Send what is news for a channel, and keep that it was sent."""
        from pipelines.pages.open_findings import finding_changes

        state: Any = context["asset_state_store"][self.asset]
        known = {} if context["params"]["again"] else state.get(channel, default={})
        changes = finding_changes(found, known)
        if not changes.is_news:
            return
        message = message_of(changes)
        if channel == EVENTS:
            event = context["outlet_events"][self.alias]
            event.add(self.asset, extra={"title": message.title, **message.facts})
        else:
            alarm_channels.send(channel, message)
        state.set(channel, dict(changes.open))
        self.say(f"{channel}: {message.title}")


class OpenFindingsOperator(MedusaOperator):
    """Fails with these sentences."""

    template_fields = ("sentences",)

    def __init__(self, *, sentences: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentences = sentences

    def act(self, settings: Settings, context: Context) -> None:
        raise CheckFailed("; ".join(self.sentences))


def message_of(changes: FindingChanges) -> Message:
    """What is sent of changes."""
    from pipelines.pages.open_findings import finding_sentence, finding_title

    parts = [f"{len(changes.new)} new"] if changes.new else []
    parts += [f"{len(changes.over)} over"] if changes.over else []
    first = finding_title(changes.new[0]) if changes.new else changes.over[0]
    return Message(
        title=f"Medusa: {', '.join(parts)}, {counted(len(changes.open), 'finding')} open: {first}",
        sentences=[
            *map(finding_sentence, changes.new),
            *(f"over: {title}" for title in changes.over),
            page_address(PAGE),
        ],
        facts={"new": list(changes.new), "over": list(changes.over), "open": len(changes.open)},
    )
