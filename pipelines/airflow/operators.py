"""The operators: each calls one function of `pipelines.operations` and reports its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from medusa_core.names import Participant
from pipelines.airflow.medusa_operator import MedusaOperator, who

if TYPE_CHECKING:
    from pipelines.base.settings import Settings
    from pipelines.operations.contract_application import ApplyRequest

WAITS_S_MAX, MARGIN_S = 18.0, 0.1
"""In all, for one task: the next run comes after 30 s, and only two are at once."""


class ParticipantsOperator(MedusaOperator):
    """The participants that a form names, all if none; the list is what others are mapped over.

    Skipped while there is no home at all, so that a new installation is not red.
    """

    def act(self, settings: Settings, context: Context) -> list[str]:
        from pipelines.homes.home import known_homes
        from pipelines.operations.form_values import participants_of

        named = context["params"].get("participants")
        if not named and not known_homes(settings.directory):
            raise AirflowSkipException("there is no home yet: bring contracts in, medusa_deploy")
        return [str(name) for name in participants_of("participants", settings, named)]


class PlanOperator(MedusaOperator):
    """What deploying the contracts would change."""

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.deploying import document, plan_deployment

        plan = plan_deployment(settings, apply_request(self, context))
        self.say(*(plan.changes or ["nothing changes"]))
        return document(plan)


def apply_request(operator: MedusaOperator, context: Context) -> ApplyRequest:
    """The request of a deployment's form: folder, participant, beginning."""
    from pipelines.operations import form_values as forms
    from pipelines.operations.contract_application import ApplyRequest, beginning_of

    form = context["params"]
    return ApplyRequest(
        contracts=forms.folder_of("contracts", form["contracts"], operator.hook.contracts_root()),
        participant=forms.text_of("participant", form["participant"]),
        begins=beginning_of(forms.text_of("begins", form["begins"])),
    )


class ApproveOrApplyOperator(BaseBranchOperator):
    """Goes on to the approval where a contract with a partner changes, else to applying.

    With a dry run nothing follows.
    """

    template_fields = ("plan",)

    def __init__(self, *, plan: Any, approve: str, apply: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.approve = approve
        self.apply = apply

    def choose_branch(self, context: Context) -> list[str]:
        """Which of the two is next."""
        if context["params"]["dry_run"]:
            return []
        return [self.approve if self.plan["approvals"] else self.apply]


class ApplyOperator(MedusaOperator):
    """Brings in what was planned, and lets those run who have something to do."""

    template_fields = ("plan",)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.deploying import apply_deployment, start_deployed

        done = apply_deployment(settings, apply_request(self, context), self.plan["fingerprint"])
        self.say(*(f"{name}: applied" for name in done.applied), *done.notes)
        document: dict[str, Any] = {"applied": list(done.applied), "notes": list(done.notes)}
        if context["params"]["start"]:
            document["running"] = start_deployed(
                settings, self.plan["homes"], done.applied, who=who(context)
            )
            self.say(*(f"{name} is to run" for name in document["running"]))
        return document


class SuperviseOperator(MedusaOperator):
    """Starts and stops the jobs of one participant as they are desired; fails what is given up.

    Where it has to wait for less than the time to the next run (a pause, an intent that nobody took
    up), it looks again then, deferred meanwhile: a lease is to be new soon, whatever was killed.
    """

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> Sequence[str]:
        return self._look(settings, waited_s=0.0)

    def look_again(self, context: Context, event: Any = None, waited_s: float = 0.0) -> Any:
        """Called when what was waited for is due."""
        return self.ran(context, lambda: self._look(self.hook.settings(), waited_s))

    def _look(self, settings: Settings, waited_s: float) -> Sequence[str]:
        from pipelines.operations.job_supervision import SupervisionRequest, supervise_once

        request = SupervisionRequest(participant=self.participant)
        result = supervise_once(settings, request, self.hook.environment())
        result.check()
        lines = result.lines()
        self.say(*lines)
        if result.due_ms is not None:
            waits_s = result.due_ms / 1_000 + MARGIN_S
            if waited_s + waits_s <= WAITS_S_MAX:
                self.defer(
                    trigger=TimeDeltaTrigger(timedelta(seconds=waits_s)),
                    method_name=self.look_again.__name__,
                    kwargs={"waited_s": waited_s + waits_s},
                    timeout=timedelta(seconds=60),
                )
        return lines


class RoundOperator(MedusaOperator):
    """A round of the market of one participant."""

    page = "contracts"

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.market_round import document, hold_due_round

        form = context["params"]
        result = hold_due_round(
            settings,
            Participant(self.participant),
            explain=form["explain"],
            only_idle=form["only_idle"],
        )
        return document(result)


class SettleOperator(MedusaOperator):
    """Settles the contracts of one participant; fails while a dispute is open."""

    page = "contracts"

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.settling import (
            SettlementSkipped,
            explain_settlement,
            settle_due,
        )

        if context["params"]["dry_run"]:
            steps = [
                f"{one.contract}, period {one.period}: {one.action}"
                for one in explain_settlement(settings, self.participant)
            ]
            self.say("a dry run: nothing was changed", *(steps or ["no contract bills here"]))
            return {"participant": self.participant, "steps": steps}
        result = settle_due(settings, Participant(self.participant))
        if isinstance(result, SettlementSkipped):
            return {"participant": result.participant, "because": result.because}
        self.say(f"{result.settled} statements made and answered", *result.problems)
        result.check()
        return {"participant": result.participant, "settled": result.settled}


class HousekeepingOperator(MedusaOperator):
    """Trims by retention, compacts, removes orphans, of one participant."""

    def __init__(self, *, participant: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.participant = participant

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations import form_values as forms
        from pipelines.operations.home_trim import TrimRequest, document
        from pipelines.operations.housekeeping import keep_house

        form = context["params"]
        request = TrimRequest(
            participant=self.participant,
            keep_us=forms.duration_of("keep", form["keep"]),
            compacts=form["compact"],
            removes_orphans=form["orphans"],
            explain=form["explain"],
        )
        result = document(keep_house(settings, request))
        counts = {name: len(what) for name, what in result.items() if isinstance(what, list)}
        self.say(f"{self.participant}: {counts or 'nothing to do'}")
        return {"participant": self.participant, **counts}
