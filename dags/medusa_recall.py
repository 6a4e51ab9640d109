"""Final results are taken back by form, as `medusa recall` does."""

from datetime import timedelta

from airflow.sdk import DAG

from pipelines.airflow.act_operators import RecallOperator
from pipelines.airflow.forms import name, one_participant, optional_text, time, yes_or_no

with DAG(
    dag_id="medusa_recall",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "act"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "participant": one_participant("Participant", "In whose home; empty: the only one here."),
        "stream": name("Stream", "The stream that is recalled, with all that was computed from "
                       "it."),
        "from": time("From", "The first bucket that is recalled; all behind it is, too."),
        "because": optional_text("Because", "Why, in a sentence: it is recorded and sent to the "
                                 "readers of the stream. May be empty with Follow."),
        "follow": name("Follow", "Agree to the recall of this partner instead, and read its "
                       "stream again."),
        "dry_run": yes_or_no("Dry run", "Show what would be taken back, and change nothing.",
                             default=True),
    },
    doc_md="""
Takes back final rows of a stream from a bucket on, with everything in this home that was computed
from them, as `medusa recall` does; it is computed again from there on. **First with *Dry run***:
the log shows each line with the rows that it loses. Who triggered the run is recorded in the home.

**When it is red** a field was refused, or the rows cannot be computed again because what they need
is trimmed: the error names the bucket from which they can. A run that is cleared or tried again
does not recall twice. See docs/recall.md.
""",
):  # fmt: skip
    RecallOperator(task_id="recall")
