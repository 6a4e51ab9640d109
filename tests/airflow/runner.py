"""A process of its own that holds Airflow and runs DAGs as it is told, a line of JSON each.

Airflow reads its settings at its first import and warns at many later ones, so it has no place in
the process of the other tests. Nothing of it is a double: real operators, triggers, plugin and
database (SQLite, of Airflow alone); `dag.test()` stands in for scheduler and workers.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
UNFINISHED = "unfinished"


def main() -> None:
    from airflow.utils.db import initdb

    initdb()
    bag = bag_of_dags(DAGS)
    answer({"errors": {k: str(v) for k, v in bag.import_errors.items()}, "dags": described(bag)})
    files = {name: Path(dag.fileloc) for name, dag in bag.dags.items()}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "unfinished" in asked:
                answer(with_unfinished(asked["dag"], asked["unfinished"]))
                continue
            # Its file is read again: a run leaves the values of its form in the DAG.
            dags = bag_of_dags(files[asked["dag"]]).dags
            answer(ran(dags[asked["dag"]], asked["form"], asked.get("at")))
        except Exception:  # noqa: BLE001 - the test that asked is told
            answer({"failed": traceback.format_exc()})


def bag_of_dags(where: Path) -> Any:
    """The DAGs of a folder or of one file of it."""
    from airflow.dag_processing.dagbag import BundleDagBag

    return BundleDagBag(dag_folder=str(where), bundle_path=DAGS, bundle_name="medusa")


def answer(document: Any) -> None:
    with os.fdopen(os.dup(int(os.environ["ANSWERS"])), "w") as answers:
        answers.write(json.dumps(document, default=str) + "\n")


def described(bag: Any) -> dict[str, Any]:
    return {
        name: {
            "tags": sorted(dag.tags),
            "doc": dag.doc_md or "",
            "params": {key: _field(dag.params.get_param(key)) for key in dag.params},
            "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
            "schedule": type(dag.timetable).__name__,
            "file": Path(dag.fileloc).name,
        }
        for name, dag in bag.dags.items()
    }


def _field(param: Any) -> dict[str, Any]:
    return {**param.schema, "description": param.description}


def with_unfinished(dag: str, state: str | None) -> Any:
    """One run of a DAG in a state that it never leaves, or none."""
    from airflow import settings
    from airflow.models.dagrun import DagRun
    from airflow.utils.types import DagRunType
    from sqlalchemy import delete

    session = settings.Session()
    try:
        session.execute(delete(DagRun).where(DagRun.dag_id == dag, DagRun.run_id == UNFINISHED))
        if state is not None:
            session.add(
                DagRun(dag_id=dag, run_id=UNFINISHED, run_type=DagRunType.MANUAL, state=state)
            )
        session.commit()
        return {"dag": dag}
    finally:
        session.close()


def _time(at: str) -> datetime:
    return datetime.fromisoformat(at)


def ran(dag: Any, form: dict[str, Any], at: str | None) -> dict[str, Any]:
    """A run of a DAG; at the same time again it is the same run, as when it is cleared."""
    from airflow import settings
    from airflow.models.asset import AssetEvent
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    times = {} if at is None else dict.fromkeys(("logical_date", "run_after"), _time(at))
    run = dag.test(run_conf=form, **times)
    session = settings.Session()
    try:
        found = session.get(DagRun, run.id)
        told = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id))
        xcoms = [[x.task_id, x.map_index, x.key, XComModel.deserialize_value(x)] for x in told]
        return {
            "state": str(found.state),
            "note": found.note,
            "tasks": sorted(
                [ti.task_id, ti.map_index, str(ti.state)] for ti in found.get_task_instances()
            ),
            "xcoms": xcoms,
            "partitions": sorted(
                str(key) for key in session.scalars(select(AssetEvent.partition_key)) if key
            ),
        }
    finally:
        session.close()


if __name__ == "__main__":
    main()
