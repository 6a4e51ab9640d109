"""Reports what there is to do: every minute, what is new and what is over."""

from datetime import timedelta

from airflow.sdk import (
    DAG,
    Asset,
    AssetAlias,
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
)

from pipelines.airflow.alarm_channels import report_missed_deadline
from pipelines.airflow.alarm_operators import AlarmsOperator, OpenFindingsOperator
from pipelines.airflow.forms import yes_or_no

MINUTES_MAX = 5
ALARMS = Asset(name="medusa_alarms", uri="medusa://alarms", group="medusa")

with DAG(
    dag_id="medusa_alarms",
    schedule=timedelta(minutes=1),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=10),
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=MINUTES_MAX),
        callback=AsyncCallback(
            report_missed_deadline, kwargs={"dag": "medusa_alarms", "minutes": MINUTES_MAX}
        ),
    ),
    tags=["medusa", "supervise"],
    default_args={"retries": 0},
    params={
        "again": yes_or_no(
            "Again", "Send all that is open, as if nothing had been sent.", default=False
        ),
    },
    doc_md="""
Reads what the page *What to do* shows and sends what has changed: as an event of the asset
`medusa_alarms`, by which a DAG of your own can be scheduled, and by the connections
`medusa_webhook` and `medusa_mail`, if they exist. Each change is sent once; a channel that is away
is sent it later. If a run has not ended within 5 min, that is sent, too.

**When it is red**, *open*: a finding of the level *bad* is open, which the error names with what
mends it, or a channel did not take a message. It is green again by itself.
""",
):
    look = AlarmsOperator(
        task_id="look", asset=ALARMS, alias=AssetAlias("medusa_alarms_changed"), red="open"
    )
    OpenFindingsOperator(task_id="open", sentences=look.output)
