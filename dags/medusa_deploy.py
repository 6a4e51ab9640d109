"""Contracts come into the homes: planned, agreed to where a partner is concerned, applied."""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from pipelines.airflow.forms import one_participant, optional_text, yes_or_no
from pipelines.airflow.operators import ApplyOperator, ApproveOrApplyOperator, PlanOperator

with DAG(
    dag_id="medusa_deploy",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "deploy"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "contracts": optional_text(
            "Folder", "Which folder of contracts, below the one that the installation names; "
            "empty: that one."),
        "participant": one_participant("Participant", "Only this one's home; empty: all."),
        "begins": optional_text(
            "Begins", "At which bucket the new plan of a changed network begins: ISO 8601, or "
            "now."),
        "dry_run": yes_or_no("Dry run", "Show what would change, and change nothing.",
                             default=False),
        "start": yes_or_no("Start", "Let those run who have something to do.", default=True),
    },
    doc_md="""
Brings `contracts/` into the catalogs, as `medusa apply` does, and lets participants run.

**plan** shows what would change, a line each. Where a contract with a partner changes, **approve**
waits for a person under *Required Actions*; rejected, nothing is applied. **apply** brings in what
was planned, and nothing else; then `medusa_supervise` starts who shall run.

**When it is red** the task's error and the run's note say why, in a sentence with the file and the
field. Mend the file and trigger it again: what was brought in stays, and is left alone. *contracts
or homes have changed since they were planned*: somebody else deployed; trigger it again.
""",
):  # fmt: skip
    plan = PlanOperator(task_id="plan")
    choose = ApproveOrApplyOperator(
        task_id="choose", plan=plan.output, approve="approve", apply="apply"
    )
    approve = ApprovalOperator(
        task_id="approve",
        subject="A contract with a partner changes",
        body="{{ ti.xcom_pull(task_ids='plan')['approvals'] | join('\n\n') }}",
        response_timeout=timedelta(days=7),
        retries=0,
    )
    apply = ApplyOperator(
        task_id="apply", plan=plan.output, trigger_rule="none_failed_min_one_success"
    )
    plan >> choose >> [approve, apply]
    approve >> apply
