"""All DAGs: what they are made of, and that reading them is light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


ABOUT = """
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")
import airflow, jsonschema
from pipelines.airflow.pages import page_file
from pipelines.airflow.provider import get_provider_info
from pipelines.airflow.task_links import url_of
schema = pathlib.Path(airflow.__file__).with_name("provider_info.schema.json")
jsonschema.validate(get_provider_info(), json.loads(schema.read_text()))
home = pathlib.Path(sys.argv[1])
asked = json.loads(sys.argv[2])
print(json.dumps({
    "shown": [name for name in asked if page_file(home, name) is not None],
    "linked": [url_of(home, home / name) for name in asked],
}))
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


@pytest.mark.long
def test_reading_the_dags_imports_no_database_spark_or_gx_with_fifty_participants(
    tmp_path: Path,
) -> None:
    imported = read_with(50, tmp_path)
    assert not {name.partition(".")[0] for name in imported} & HEAVY
    rooms = {".".join(name.split(".")[:2]) for name in imported if name.startswith("pipelines.")}
    assert rooms <= {"pipelines.airflow", "pipelines.base"}


def test_pages_alone_are_shown_and_the_provider_is_described_as_airflow_wants(
    tmp_path: Path,
) -> None:
    files = ["reports/drill.html", "quality/docs/index.html", "airflow/secrets.json", "home.json",
             "reports/notes.txt"]  # fmt: skip
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a file")
    (tmp_path / "reports" / "out.html").symlink_to(tmp_path / "airflow" / "secrets.json")
    asked = [*files, "reports/../airflow/secrets.json", "../x.html", "/etc/passwd", "",
             "reports/out.html", "reports/\0.html", "reports"]  # fmt: skip
    told = subprocess.run(
        [sys.executable, "-c", ABOUT, str(tmp_path), json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": str(ROOT)},
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout.splitlines()[-1])
    assert found["shown"] == ["reports/drill.html", "quality/docs/index.html"]
    linked = [link for link in found["linked"] if link]
    assert "/medusa/pages/reports/drill.html" in linked
    assert not [link for link in linked if "secrets" in link or "etc" in link]
