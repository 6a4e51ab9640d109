"""The steps of a drill, each a task that can be looked at while it goes on."""

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


class PrepareDrillOperator(MedusaOperator):
    """Checks the form; what is to be judged, as it stands before."""

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drill_forms import prepare

        drill = prepare(settings, dict(context["params"]))
        self.say(*(f"judged: {one['home']}/{one['stream']}" for one in drill["judged"]))
        return drill


class DrillStepOperator(MedusaOperator):
    """A step of the drill that was prepared; skipped where it was refused."""

    template_fields = ("drill",)

    def __init__(self, *, drill: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drill = drill

    def act(self, settings: Settings, context: Context) -> Any:
        if not self.drill:
            raise AirflowSkipException("there is no drill: it was refused, see the first task")
        return self.step(settings, context)

    @abstractmethod
    def step(self, settings: Settings, context: Context) -> Any:
        """What this step does."""


class StrikeOperator(DrillStepOperator):
    """Makes the fault; when it was made, by the clock of each home."""

    def step(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drilling import mark, strike

        marks = mark(settings, self.drill, self.drill["scene"])
        self.say(strike(settings, self.drill))
        return marks


class WatchOperator(DrillStepOperator):
    """Waits, while the fault lasts, for tentative answers."""

    def step(self, settings: Settings, context: Context) -> Mapping[str, int]:
        from pipelines.operations.drilling import watch

        return watch(settings, self.drill, self.say)


class HealOperator(DrillStepOperator):
    """Ends the fault, whatever became of the steps before."""

    def step(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drilling import heal, mark

        self.say(heal(settings, self.drill))
        return mark(settings, self.drill, "heal")


class RecoverOperator(DrillStepOperator):
    """Waits until everything is final again and goes on."""

    def step(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drilling import recover

        return recover(settings, self.drill, self.say)


class JudgeOperator(DrillStepOperator):
    """Certifies what was answered since the drill began, and publishes the report."""

    def step(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.drilling import REPORTS, judge

        pulled = context["ti"].xcom_pull(task_ids=["strike", "heal"])
        marks: dict[str, list[Any]] = {}
        for found in pulled or ():
            for home, told in (found or {}).items():
                marks.setdefault(home, []).extend(told)
        title = "drill-" + re.sub(r"[^A-Za-z0-9]+", "-", context["dag_run"].run_id)[:100]
        folder = settings.directory / REPORTS
        drill = {**self.drill, "marks": marks}
        names = {one["home"] for one in self.drill["judged"]}
        # A link to the page stays where laws were broken: it is then that it is needed.
        self.show(settings, {"pages": [folder / f"{title}-{min(names)}.html"]})
        document = judge(settings, drill, folder, title)
        self.show(settings, document)
        self.say(*(f"report: {page}" for page in document["pages"]))
        return document
