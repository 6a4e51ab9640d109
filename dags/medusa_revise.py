"""Final records of a source are replaced by form, as `medusa revise` does."""

from datetime import timedelta

from airflow.sdk import DAG

from pipelines.airflow.act_operators import ReviseOperator
from pipelines.airflow.forms import (
    choice,
    long_text,
    name,
    one_participant,
    optional_text,
    yes_or_no,
)

with DAG(
    dag_id="medusa_revise",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "act"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "participant": one_participant("Participant", "In whose home; empty: the only one here."),
        "stream": name("Stream", "The source that is revised; with follow, a partner's stream."),
        "action": choice(
            "Action", "add: records are added; remove: they are removed; replace: they are all "
            "that their buckets hold; follow: a partner's revisions are taken over.",
            ["add", "remove", "replace", "follow"]),
        "records": long_text(
            "Records", "The records, as a file of the source has them: CSV with a header, or JSON "
            "lines.", 100_000),
        "file": optional_text(
            "File", "Instead: a file of records in the folder revisions of MEDUSA_DIR."),
        "because": optional_text("Because", "Why, in a sentence: it is recorded and shown to the "
                                 "readers of the stream. May be empty with follow."),
        "follow": name("Follow", "The partner whose revisions are followed; else empty."),
        "dry_run": yes_or_no("Dry run", "Show what would be revised, and change nothing.",
                             default=True),
    },
    doc_md="""
Adds, removes or replaces final records of a source, and nothing else, as `medusa revise` does; what
needs them is computed again. **First with *Dry run***: the log shows the buckets that change, and
what may be computed again. Who triggered the run is recorded in the home.

**When it is red** a field was refused, a record does not fit (the error has its line), or its
bucket is not final or is trimmed. A run that is cleared or tried again does not revise twice. See
docs/revise.md.
""",
):  # fmt: skip
    ReviseOperator(task_id="revise")
