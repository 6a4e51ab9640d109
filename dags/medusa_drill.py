"""A fault on purpose, on the federation as it runs: it answers, heals, corrects, and is judged."""

from airflow.sdk import DAG

from pipelines.airflow.drill_operators import (
    HealOperator,
    JudgeOperator,
    PrepareDrillOperator,
    RecoverOperator,
    StrikeOperator,
    WatchOperator,
)
from pipelines.airflow.forms import choice, one_participant, optional_text, yes_or_no

with DAG(
    dag_id="medusa_drill",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "drill"],
    default_args={"retries": 0},
    params={
        "scene": choice(
            "Scene", "cut: nothing goes between two; one-way: what the first sends is lost; slow: "
            "each call takes longer; kill: a process ends; freeze: it stands still.",
            ["cut", "one-way", "slow", "kill", "freeze"]),
        "participant": one_participant("Participant", "Who it is about."),
        "partner": one_participant("Partner", "The other end of the link; else empty."),
        "lasts": optional_text("Lasts", "For how long, such as 30s; it ends by itself.",
                               default="30s"),
        "by": optional_text("By", "How much longer each call takes, when it is slow: such as "
                            "500ms."),
        "network": optional_text("Network", "Judge its streams only; empty: all."),
        "patience": optional_text("Patience", "How long recovery may take (L1).", default="5m"),
        "must_be_in_time": yes_or_no(
            "In time", "Answers that come later than their bound (S6) make it fail, too.",
            default=True),
    },
    doc_md="""
A drill: **strike** makes the fault, as `medusa fault` does, **watch** tells of tentative answers,
**heal** ends it (whatever happened before; it also ends by itself), **recover** waits until all is
final again and goes on, **judge** certifies what was answered since and publishes the report: links
*Report* and *Certificate* on that task.

**When it is red**, *prepare*: a field was refused or somebody does not run, nothing was done;
*recover*: corrections took longer than the patience (L1); *judge*: a law was broken, the error
names it, the report shows where. See docs/drills.md and docs/recover.md.
""",
):  # fmt: skip
    drill = PrepareDrillOperator(task_id="prepare")
    strike = StrikeOperator(task_id="strike", drill=drill.output)
    watch = WatchOperator(task_id="watch", drill=drill.output)
    heal = HealOperator(task_id="heal", drill=drill.output, trigger_rule="all_done")
    recover = RecoverOperator(task_id="recover", drill=drill.output)
    judge = JudgeOperator(task_id="judge", drill=drill.output)
    drill >> strike >> watch >> heal >> recover >> judge
    watch >> recover
