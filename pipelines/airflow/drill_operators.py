"""The steps of a drill, each a task that can be inspected while it runs."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from pipelines.airflow.medusa_operator import MedusaOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pipelines.base.settings import Settings
    from pipelines.operations.drilling import Drill, TentativeSeen, Unsettled
    from pipelines.operations.fault_injection import FaultResult


class PrepareDrillOperator(MedusaOperator):
    """Checks the form, and chooses the streams to judge, as they are before."""

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drill_forms import prepare
        from pipelines.operations.drilling import document

        drill = prepare(settings, dict(context["params"]))
        self.say(*(f"judged: {one.name}" for one in drill.judged))
        return document(drill)


class DrillStepOperator(MedusaOperator):
    """A step of the drill that was prepared; skipped where it was refused."""

    template_fields = ("drill",)

    def __init__(self, *, drill: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drill = drill

    def act(self, settings: Settings, context: Context) -> Any:
        from pipelines.operations.drilling import drill_of

        if not self.drill:
            raise AirflowSkipException("there is no drill: it was refused, see the first task")
        return self.step(settings, drill_of(self.drill), context)

    @abstractmethod
    def step(self, settings: Settings, drill: Drill, context: Context) -> Any:
        """Carry out this step; the result is its XCom."""

    def mark(self, settings: Settings, drill: Drill, label: str) -> Mapping[str, Any]:
        """The time of each judged home's clock, for XCom."""
        from pipelines.operations.drilling import mark

        marks = mark(settings, drill, label)
        return {home: {"at_ms": one.at_ms, "label": one.label} for home, one in marks.items()}

    def say_fault(self, result: FaultResult) -> None:
        """Write what was injected or healed into the log of the task."""
        from pipelines.cli.fault import render

        self.say(*render(result).splitlines())


class StrikeOperator(DrillStepOperator):
    """Injects the fault; its XCom is when, by the clock of each home."""

    def step(self, settings: Settings, drill: Drill, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drilling import strike

        marks = self.mark(settings, drill, drill.scene)
        self.say_fault(strike(settings, drill))
        return marks


class WatchOperator(DrillStepOperator):
    """Waits, while the fault lasts, for tentative answers."""

    def step(self, settings: Settings, drill: Drill, context: Context) -> Mapping[str, int]:
        from pipelines.operations.drilling import watch

        def say(seen: TentativeSeen) -> None:
            missing = ", ".join(seen.missing)
            self.say(f"{seen.stream.name}: {seen.count} tentative, the last without {missing}")

        return watch(settings, drill, say)


class HealOperator(DrillStepOperator):
    """Ends the fault, whatever the result of the steps before."""

    def step(self, settings: Settings, drill: Drill, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drilling import heal

        self.say_fault(heal(settings, drill))
        return self.mark(settings, drill, "heal")


class RecoverOperator(DrillStepOperator):
    """Waits until everything is final again and answers continue."""

    def step(self, settings: Settings, drill: Drill, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drilling import recover

        def say(seen: Unsettled) -> None:
            self.say("; ".join(seen.reasons) or "all is final again, and answers continue")

        return {"recovered": list(recover(settings, drill, say))}


class JudgeOperator(DrillStepOperator):
    """Certifies what was answered since the drill began, and publishes the report."""

    def step(self, settings: Settings, drill: Drill, context: Context) -> Mapping[str, Any]:
        from medusa_core.names import Participant
        from pipelines.operations.drilling import REPORTS, judge, page_of
        from pipelines.report.answer_figures import Mark

        pulled = context["ti"].xcom_pull(task_ids=["strike", "heal"])
        marks: dict[Participant, list[Mark]] = {}
        for found in pulled or ():
            for home, one in (found or {}).items():
                marks.setdefault(Participant(home), []).append(Mark(one["at_ms"], one["label"]))
        title = "drill-" + re.sub(r"[^A-Za-z0-9]+", "-", context["dag_run"].run_id)[:100]
        folder = settings.directory / REPORTS
        first = min(one.home for one in drill.judged)
        # A link to the page exists where laws were broken, too: that is when it is needed.
        self.show(settings, {"pages": [page_of(folder, title, first)]})
        done = judge(settings, drill, marks, folder, title)
        document = {
            "passed": True,
            "checks": done.checks,
            "late": list(done.late),
            "pages": [str(page) for page in done.pages],
            "certificates": done.certificates,
        }
        self.show(settings, document)
        self.say(f"{done.checks} checks passed", *done.late)
        self.say_pages()
        return document
