"""Rounds of the market for those who do not run, and by hand for anybody."""

from datetime import timedelta

from airflow.sdk import DAG

from pipelines.airflow.forms import participants, yes_or_no
from pipelines.airflow.operators import ParticipantsOperator, RoundOperator

with DAG(
    dag_id="medusa_round",
    schedule=timedelta(minutes=15),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=10),
    tags=["medusa", "market"],
    default_args={"retries": 1, "retry_delay": timedelta(seconds=10)},
    params={
        "participants": participants(),
        "explain": yes_or_no("Explain", "Show what would be decided, and decide nothing.",
                             default=False),
        "only_idle": yes_or_no(
            "Only idle", "Leave those alone who run: they open rounds of their own.",
            default=True),
    },
    doc_md="""
Opens a round of the market for each participant, as `medusa round` does: it looks at what its load
costs, offers fragments under the contracts in force, and answers what partners have offered.

**When it is red** a home is away, or a participant's key is missing or may be read by others: the
error says which, and what to do. A round that was not opened is made up by the next one.
""",
):  # fmt: skip
    names = ParticipantsOperator(task_id="participants")
    RoundOperator.partial(task_id="round", map_index_template="{{ task.participant }}").expand(
        participant=names.output
    )
