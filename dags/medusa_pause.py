"""Participants are paused and resumed by form, as `medusa job stop` and `start` do."""

from datetime import timedelta

from airflow.sdk import DAG

from pipelines.airflow.act_operators import PauseOperator
from pipelines.airflow.forms import choice, optional_text, participants

with DAG(
    dag_id="medusa_pause",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "act"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "participants": participants("Which participants, a line each."),
        "action": choice("Action", "pause: they do not run until they are resumed, and deliver "
                         "nothing; resume: they run, and what was given up is tried again.",
                         ["pause", "resume"]),
        "lane": choice("Lane", "live: all that they land, compute and deliver; backlog: the lane "
                       "of owed corrections.", ["live", "backlog"]),
        "because": optional_text("Because", "Why, in a sentence: the page shows it while they are "
                                 "paused."),
    },
    doc_md="""
Records in their homes that participants shall not run, or shall run again, as `medusa job stop` and
`medusa job start` do; `medusa_supervise` ends and starts their jobs. While a participant is paused
its streams do not go on, and its readers answer tentatively without them. Nothing is lost: it
continues where it was. Who triggered the run is recorded with the reason.

**When it is red** a participant is not known, a field was refused, or a home is away.
""",
):  # fmt: skip
    PauseOperator(task_id="pause")
