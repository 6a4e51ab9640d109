"""The operators that correct what is owed, and certify what has closed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from medusa_core.names import Participant
from pipelines.airflow.medusa_operator import MedusaOperator, who
from pipelines.airflow.triggers import CorrectionsEnd

if TYPE_CHECKING:
    from pipelines.base.settings import Settings


class CorrectOperator(MedusaOperator):
    """Opens the backlog lane of one participant where corrections are owed, and waits for its end.

    It waits without a worker (`CorrectionsEnd`).
    """

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.correcting import open_backlog

        form = context["params"]
        document = open_backlog(
            settings, Participant(self.participant), self.hook.environment(),
            who=who(context), always=form["always"],
        )  # fmt: skip
        self.say(f"{self.participant}: {document['because']}")
        return document

    def execute(self, context: Context) -> Any:
        document = super().execute(context)
        if document["desired"] is None:
            return {**document, "corrected": False}
        self.defer(
            trigger=CorrectionsEnd(
                participant=self.participant, desired=document["desired"],
                streams=document["streams"], medusa_conn_id=self.medusa_conn_id,
            ),
            method_name="corrected",
            timeout=timedelta(hours=12),
        )  # fmt: skip
        return None

    def corrected(self, context: Context, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The job has ended, as the event says."""
        from medusa_core.errors import CheckFailed

        def check() -> Mapping[str, Any]:
            if event["problem"]:
                raise CheckFailed(event["problem"])
            return {
                "participant": self.participant,
                "corrected": True,
                "because": event["said"],
                "streams": event["streams"],
            }

        return self.told(context, check)


class WindowsOperator(MedusaOperator):
    """Tells of the windows of one participant that have closed: partitions of its outlet."""

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> list[str]:
        from pipelines.operations import form_values as forms
        from pipelines.operations.certifying import WINDOW_US, windows_due

        length_us = forms.duration_of(
            "length", context["params"]["length"], least_us=1_000_000, most_us=86_400_000_000
        )
        due = windows_due(settings, Participant(self.participant), length_us=length_us or WINDOW_US)
        keys = [window.key for window in due]
        if not keys:
            raise AirflowSkipException(f"nothing new has closed in the home of {self.participant}")
        context["outlet_events"][self.outlets[0]].add_partitions(keys)
        self.say(*keys)
        return keys


class CertifyOperator(MedusaOperator):
    """Certificates of one closed window: the run's partition, or what its form names.

    Fails, naming the laws, if a check failed.
    """

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations import certifying
        from pipelines.operations import form_values as forms

        key = context["dag_run"].partition_key
        if key:
            window = certifying.window_of(settings, key)
            return self.certify(
                settings, window.participant, window.stream, window.from_us, window.to_us
            )
        form = context["params"]
        return self.certify(
            settings,
            forms.participant_of("participant", settings, form["participant"]),
            forms.text_of("stream", form["stream"]),
            forms.time_of("from", form["from"]),
            forms.time_of("to", form["to"]),
        )

    def certify(
        self,
        settings: Settings,
        participant: Participant,
        stream: str | None,
        from_us: int | None,
        to_us: int | None,
    ) -> Mapping[str, Any]:
        """Check, link to the pages, and raise CheckFailed if something is wrong."""
        from pipelines.operations import certifying

        document = certifying.certify(settings, participant, stream, from_us, to_us)
        self.show(settings, document)
        self.say(f"{len(document['certificates'])} checks; pages: {document['page']}")
        certifying.check_passed(document)
        return {"passed": True, "checks": len(document["certificates"]), "page": document["page"]}


class CertifyCorrectedOperator(MedusaOperator):
    """Certificates of what was corrected of a participant, as far as it is final now."""

    template_fields = ("corrected",)

    def __init__(self, *, corrected: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.corrected = corrected

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.correcting import certify_corrected

        if not self.corrected["corrected"]:
            raise AirflowSkipException(f"nothing was corrected: {self.corrected['because']}")
        document = certify_corrected(
            settings, Participant(self.corrected["participant"]), self.corrected["streams"]
        )
        self.show(settings, document)
        self.say(f"{document['checks']} checks; pages: {document['page']}")
        return document
