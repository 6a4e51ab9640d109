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

SERVED = """
import asyncio, json, os, sys, warnings
warnings.simplefilter("ignore")
import httpx
from pipelines.airflow.pages import pages_app
from pipelines.pages.viewer import Viewer

async def who(request):
    name = request.headers["x-user"]
    return Viewer(name=name) if name else None

async def answers():
    application = pages_app(who)
    transport = httpx.ASGITransport(app=application)
    found = {}
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        for access in (None, "anna: alpha; lea: *; ben: alpha beta", "nonsense"):
            if access is not None:
                os.environ["MEDUSA_PAGE_HOMES"] = access
            for user in ("", "anna", "ben", "lea", "uma"):
                one = await client.get("/pages/reports/drill.html", headers={"x-user": user})
                found[f"{access and access[0]} {user}"] = one.status_code
    return found

print(json.dumps(asyncio.run(answers())))
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


def test_reports_are_for_those_from_whom_no_home_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "home.json").write_text(json.dumps({"participants": {"alpha": "a", "beta": "b"}}))
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "drill.html").write_text("of alpha and beta")
    environment = {name: value for name, value in os.environ.items() if name != "MEDUSA_PAGE_HOMES"}
    told = subprocess.run(
        [sys.executable, "-c", SERVED],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment
        | {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "MEDUSA_DIR": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        },
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "None ": 401, "None anna": 200, "None ben": 200, "None lea": 200, "None uma": 200,
        "a ": 401, "a anna": 403, "a ben": 200, "a lea": 200, "a uma": 403,
        "n ": 401, "n anna": 503, "n ben": 503, "n lea": 503, "n uma": 503,
    }  # fmt: skip
