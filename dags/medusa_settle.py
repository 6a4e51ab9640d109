"""Settlement: periods that are over are stated, statements are sent and answered."""

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from pipelines.airflow.forms import participants, yes_or_no
from pipelines.airflow.operators import ParticipantsOperator, SettleOperator

with DAG(
    dag_id="medusa_settle",
    schedule=CronTriggerTimetable("47 3 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "market"],
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "participants": participants(),
        "dry_run": yes_or_no("Dry run", "Show what is due, and change nothing.", default=False),
    },
    doc_md="""
Settles the contracts of each participant, as `medusa settle` does; a participant that runs settles
by itself, and has nothing left to do here.

**When it is red** a statement is in dispute (the error says of which contract and period, and how
much), a home is away, or others may read a participant's key. `medusa statement CONTRACT PERIOD`
shows where the two statements differ, and `medusa dispute` ends it with the figures of one party.
The next run does the rest.
""",
):
    names = ParticipantsOperator(task_id="participants")
    SettleOperator.partial(task_id="settle", map_index_template="{{ task.participant }}").expand(
        participant=names.output
    )
