"""After a failure has healed: long corrections in a separate lane, then certificates."""

from datetime import timedelta

from airflow.sdk import DAG

from pipelines.airflow.forms import participants, yes_or_no
from pipelines.airflow.operators import ParticipantsOperator
from pipelines.airflow.quality_operators import CertifyCorrectedOperator, CorrectOperator

with DAG(
    dag_id="medusa_reconcile",
    schedule=timedelta(minutes=15),
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "correct"],
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
    params={
        "participants": participants(),
        "always": yes_or_no("Always", "Open the backlog lane even where nothing seems owed.",
                            default=False),
    },
    doc_md="""
Where a participant owes corrections and no input is missing any more, a second job of it is started
in the **backlog** lane: it corrects while the live one continues to answer, and ends when
nothing is owed. Then all that is closed in that home is certified. A task that waits for the job
takes no worker.

**When it is red**, *correct*: the job was given up, the error names its log; *certify*: a law was
broken, the error names stream, window and law, and the link *Certificate* leads to what was found.
See docs/recover.md. Nothing is lost by clearing either task.
""",
):  # fmt: skip
    names = ParticipantsOperator(task_id="participants")
    corrected = CorrectOperator.partial(
        task_id="correct", map_index_template="{{ task.participant }}"
    ).expand(participant=names.output)
    CertifyCorrectedOperator.partial(
        task_id="certify", map_index_template="{{ task.corrected['participant'] }}"
    ).expand(corrected=corrected.output)
