"""Notes of failed runs: a failed task leaves a sentence, the process that ends the run adds it.

A task may not write notes; it leaves its sentence as an XCom. Airflow's scheduler, which ends the
run, notifies this listener, which writes the sentences where the operator looks first. It changes
the run in the scheduler's session and opens no other: the run's row is locked there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

BECAUSE = "medusa_because"
NOTE_MAX = 1_000


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Write the messages of failed tasks into the note of the run."""
    if not dag_run.dag_id.startswith("medusa_"):
        return
    from airflow import settings
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:  # as in dag.test(): the session of this thread, which was closed between
        assert settings.Session is not None, "who ends a run has a database"
        session = settings.Session()
        found = session.get(DagRun, dag_run.id)
        if found is None:
            return
        dag_run = found
    query = select(XComModel).where(
        XComModel.dag_id == dag_run.dag_id,
        XComModel.run_id == dag_run.run_id,
        XComModel.key == BECAUSE,
    )
    with session.no_autoflush:
        notes = [XComModel.deserialize_value(row) for row in session.scalars(query)]
    note = "; ".join(dict.fromkeys(str(one) for one in notes if one))
    if note:
        dag_run.note = note if len(note) <= NOTE_MAX else f"{note[: NOTE_MAX - 1]}…"
