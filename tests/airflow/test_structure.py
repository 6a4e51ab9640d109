"""All DAGs: what they are made of, and that reading them is light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.airflow.runner import DAGS, ROOT

HEAVY = {
    "duckdb", "great_expectations", "numpy", "pandas", "psycopg", "psycopg2", "pyarrow", "pyspark",
    "scipy", "sqlalchemy", "sqlglot",
}  # fmt: skip
READ = """
import importlib.util, json, sys, pathlib, warnings
warnings.simplefilter("ignore")
import airflow.sdk, airflow.providers.standard.operators.hitl, airflow.triggers.base
import airflow.providers.standard.operators.branch
before = set(sys.modules)
for path in sorted(pathlib.Path(sys.argv[1]).glob("medusa_*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def read_with(participants: int, folder: Path) -> set[str]:
    """The modules that reading all DAG files imports, with so many homes in the folder."""
    homes = {f"p{n}": f"medusa_p{n}" for n in range(participants)}
    (folder / "home.json").write_text(json.dumps({"participants": homes}))
    told = subprocess.run(
        [sys.executable, "-c", READ, str(DAGS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ
        | {
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "MEDUSA_DIR": str(folder),
            "PYTHONPATH": str(ROOT),
        },
    )
    assert told.returncode == 0, told.stderr
    return set(json.loads(told.stdout.splitlines()[-1]))


def test_reading_the_dags_imports_no_database_spark_or_gx_with_fifty_participants(
    tmp_path: Path,
) -> None:
    imported = read_with(50, tmp_path)
    assert not {name.partition(".")[0] for name in imported} & HEAVY
    rooms = {".".join(name.split(".")[:2]) for name in imported if name.startswith("pipelines.")}
    assert rooms <= {"pipelines.airflow", "pipelines.settings"}
