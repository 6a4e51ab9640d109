"""Starts and stops jobs as they are desired: every half minute, and at each change."""

from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, AssetWatcher, DeltaTriggerTimetable

from pipelines.airflow.forms import participants
from pipelines.airflow.operators import ParticipantsOperator, SuperviseOperator
from pipelines.airflow.triggers import CatalogEvents

NEWS = Asset(
    name="medusa_supervision",
    uri="medusa://supervision",
    watchers=[AssetWatcher(name="medusa_catalogs", trigger=CatalogEvents())],
)

with DAG(
    dag_id="medusa_supervise",
    schedule=AssetOrTimeSchedule(
        timetable=DeltaTriggerTimetable(timedelta(seconds=30)), assets=[NEWS]
    ),
    catchup=False,
    max_active_runs=2,
    dagrun_timeout=timedelta(minutes=5),
    tags=["medusa", "supervise"],
    default_args={"retries": 0},
    params={"participants": participants()},
    doc_md="""
Compares what shall run (`medusa_api.desired_jobs` of each home) with what does, and starts, stops
or ends jobs: one task for each participant. Jobs are processes of their own, which outlive the
task, Airflow and each other. It keeps nothing: clear a task, run it twice at once, pause the DAG:
nothing is started twice. While it is paused, nothing that dies is started again.

**When it is red** a job was given up: it ended too often, or was refused. The error names reason
and log (`MEDUSA_DIR/logs/job-NAME-LANE.out`). Mend that, then trigger `medusa_deploy`, or type
`medusa job start NAME`: what is desired anew is tried again.
""",
):
    names = ParticipantsOperator(task_id="participants")
    SuperviseOperator.partial(
        task_id="supervise", map_index_template="{{ task.participant }}"
    ).expand(participant=names.output)
