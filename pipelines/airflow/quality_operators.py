"""The operators that make owed corrections, and certify closed windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from medusa_core.names import Participant
from medusa_core.suggest import counted
from pipelines.airflow.medusa_operator import MedusaOperator, who
from pipelines.airflow.operators import ParticipantsOperator
from pipelines.airflow.triggers import CorrectionsEnd

if TYPE_CHECKING:
    from pipelines.base.settings import Settings
    from pipelines.operations.certification import CertificationRequest


class CorrectOperator(MedusaOperator):
    """Opens the backlog lane of one participant where corrections are owed, and waits for its end.

    It waits without a worker (`CorrectionsEnd`).
    """

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.correcting import BacklogRequest, document, open_backlog

        request = BacklogRequest(
            participant=Participant(self.participant),
            who=who(context),
            always=context["params"]["always"],
        )
        result = open_backlog(settings, request, self.hook.environment())
        self.say(f"{self.participant}: {result.because}")
        return document(result)

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

        return self.ran(context, check)


class UncheckedParticipantsOperator(ParticipantsOperator):
    """The participants to look at, unless checks of earlier windows wait or run.

    Then it is skipped: on a slow machine, runs would pile up, each of them for a window that
    overlaps the one before. Nothing is missed, since a window begins where the last certificate
    ended.
    """

    def __init__(self, *, checks: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checks = checks

    def act(self, settings: Settings, context: Context) -> list[str]:
        unfinished = context["ti"].get_dr_count(self.checks, states=["queued", "running"])
        if unfinished:
            raise AirflowSkipException(
                f"{counted(unfinished, 'run')} of {self.checks} not ended yet: windows that have "
                "closed are looked for when they have"
            )
        return super().act(settings, context)


class WindowsOperator(MedusaOperator):
    """Tells of the windows of one participant that have closed: partitions of its outlet."""

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> list[str]:
        from pipelines.operations import form_values as forms
        from pipelines.operations.closed_windows import WINDOW_US, windows_due

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
        from pipelines.operations.certification import certify

        request = self._request(settings, context)
        if request.stream is not None:
            self.lead_to("streams", home=request.participant, stream=request.stream)
        result = certify(settings, request)
        page = str(result.page)
        self.show(settings, {"page": page})
        self.say(*result.lines())
        self.say_pages()
        result.check_passed()
        return {"passed": True, "checks": len(result.found), "page": page}

    def _request(self, settings: Settings, context: Context) -> CertificationRequest:
        from pipelines.operations import form_values as forms
        from pipelines.operations.certification import CertificationRequest
        from pipelines.operations.closed_windows import window_of

        key = context["dag_run"].partition_key
        if key:
            window = window_of(settings, key)
            return CertificationRequest(
                participant=window.participant,
                stream=window.stream,
                from_us=window.from_us,
                to_us=window.to_us,
            )
        form = context["params"]
        return CertificationRequest(
            participant=forms.participant_of("participant", settings, form["participant"]),
            stream=forms.text_of("stream", form["stream"]),
            from_us=forms.time_of("from", form["from"]),
            to_us=forms.time_of("to", form["to"]),
        )


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
        done = certify_corrected(
            settings, Participant(self.corrected["participant"]), self.corrected["streams"]
        )
        self.show(settings, {"page": done.page})
        self.say(f"{counted(done.checks, 'check')} passed")
        self.say_pages()
        return {"passed": True, "checks": done.checks, "page": done.page}
