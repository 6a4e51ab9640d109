"""Space: data past its retention is removed, small files become one, orphans are removed."""

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from pipelines.airflow.forms import optional_text, participants, yes_or_no
from pipelines.airflow.operators import HousekeepingOperator, ParticipantsOperator

with DAG(
    dag_id="medusa_housekeeping",
    schedule=CronTriggerTimetable("17 3 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "housekeeping"],
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "participants": participants(),
        "keep": optional_text(
            "Keep", "Event time to keep behind the end of what is stable, such as 7d; empty: as "
            "the contracts declare."),
        "compact": yes_or_no("Compact", "Make one file of many small ones.", default=True),
        "orphans": yes_or_no("Orphans", "Remove files that nothing names, an hour old or older.",
                             default=True),
        "explain": yes_or_no("Explain", "Show what would go, and let nothing go.", default=False),
    },
    doc_md="""
Trims what nobody holds and no contract keeps, compacts, and removes files of killed steps,
as `medusa trim` does; participants run on meanwhile and readers see no difference. What is kept for
good is not trimmed.

**When it is red** a home is away or a value was refused: the error says which. Cut short anywhere,
the next run does the rest.
""",
):  # fmt: skip
    names = ParticipantsOperator(task_id="participants")
    HousekeepingOperator.partial(
        task_id="keep_house", map_index_template="{{ task.participant }}"
    ).expand(participant=names.output)
