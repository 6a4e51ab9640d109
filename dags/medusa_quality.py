"""A certificate for each window that closes: one DAG reports it, a run of another makes it."""

from datetime import timedelta

from airflow.sdk import DAG, Asset, PartitionedAssetTimetable

from pipelines.airflow.forms import one_participant, optional_text, participants
from pipelines.airflow.quality_operators import (
    CertifyOperator,
    UncheckedParticipantsOperator,
    WindowsOperator,
)

CHECKS = "medusa_quality"
WINDOWS = Asset(name="medusa_closed_windows", uri="medusa://closed-windows")

with DAG(
    dag_id="medusa_closed_windows",
    schedule=timedelta(minutes=5),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=5),
    tags=["medusa", "quality"],
    default_args={"retries": 1, "retry_delay": timedelta(seconds=10)},
    params={
        "participants": participants(),
        "length": optional_text("Length", "How long a window is at most.", default="1h"),
    },
    doc_md="""
Looks in each home which windows of its streams have become final since the last certificate, and
tells `medusa_quality` of them: each is a partition `PARTICIPANT/STREAM/FROM/TO`. While checks of
earlier windows wait or run it is skipped, so that they do not pile up on a slow machine.

**When it is red** a home is away, or a form value was refused: the error says which. What was
missed is found at the next look.
""",
):
    names = UncheckedParticipantsOperator(task_id="participants", checks=CHECKS)
    WindowsOperator.partial(
        task_id="windows", outlets=[WINDOWS], map_index_template="{{ task.participant }}"
    ).expand(participant=names.output)

with DAG(
    dag_id=CHECKS,
    schedule=PartitionedAssetTimetable(assets=WINDOWS),
    catchup=False,
    max_active_runs=2,
    dagrun_timeout=timedelta(hours=1),  # one that hangs would keep windows from being looked for
    tags=["medusa", "quality"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    params={
        "participant": one_participant("Participant", "In whose home; for a run by hand."),
        "stream": optional_text("Stream", "Which; empty: all that have closed."),
        "from": optional_text("From", "The first bucket: ISO 8601 or Unix seconds; empty: all."),
        "to": optional_text("To", "Where the window ends, exclusive; empty: as far as closed."),
    },
    doc_md="""
Computes a closed window again, with another engine, and holds it to the laws: `converged` (L2),
`complete` (L1), `boundaries` (S1), `availability` (S6). What is found is a certificate in the
catalog, whether it passed or not, and a page: the link *Certificate*.

**When it is red** a law was broken, which the error names with stream and window, or the window
cannot be checked (it has not closed, or is trimmed). See docs/quality.md for what each suite looks
at and docs/recover.md for what to do. Clearing the task checks once more.
""",
):
    CertifyOperator(task_id="certify")
