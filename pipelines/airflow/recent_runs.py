"""The last runs of DAGs with a form, from Airflow's database, for the page in its server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.pages.acts import FORM_DAGS
from pipelines.pages.dag_runs import RUNS_MAX, DagRun


def last_runs() -> Sequence[DagRun]:
    """`RUNS_MAX` runs of each of these DAGs, the newest first."""
    from airflow.models.dagrun import DagRun as Run
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    names = [dag.name for dag in FORM_DAGS]
    place = func.row_number().over(partition_by=Run.dag_id, order_by=Run.id.desc())
    ranked = select(Run.id.label("id"), place.label("place")).where(Run.dag_id.in_(names))
    numbered = ranked.subquery()
    statement = (
        select(Run.dag_id, Run.run_id, Run.state, Run.triggering_user_name, Run.queued_at,
               Run.run_after, Run.conf, Run.id)
        .join(numbered, numbered.c.id == Run.id)
        .where(numbered.c.place <= RUNS_MAX)
        .order_by(Run.run_after.desc(), Run.id.desc())
    )  # fmt: skip
    with create_session() as session:
        rows = session.execute(statement).all()
        notes = _notes(session, [row.id for row in rows])
    return tuple(
        DagRun(
            dag=row.dag_id,
            run=row.run_id,
            state=str(getattr(row.state, "value", row.state)),
            user=row.triggering_user_name,
            at_ms=int((row.queued_at or row.run_after).timestamp() * 1_000),
            note=notes.get(row.id),
            form=row.conf if isinstance(row.conf, Mapping) else {},
        )
        for row in rows
    )


def _notes(session: Any, ids: Sequence[int]) -> Mapping[int, str]:
    from airflow.models.dagrun import DagRunNote
    from sqlalchemy import select

    query = select(DagRunNote.dag_run_id, DagRunNote.content).where(DagRunNote.dag_run_id.in_(ids))
    return {number: str(content) for number, content in session.execute(query) if content}
