"""With what words and surroundings a job's process is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from medusa_core.commits import Lane
from medusa_core.errors import Refused
from medusa_core.supervision import DesiredJob
from pipelines.base.settings import SPARK_MASTER, Settings, SparkSettings
from pipelines.homes.home import RECORD
from pipelines.platform.jobs.launch import SCRIPT, launch_of
from pipelines.spark.session import open_session
from tests.supervising.conftest import ALPHA

SETTINGS = replace(Settings.from_environment({}), directory=Path("/srv/homes"))
WANTED = DesiredJob(
    number=1, lane=Lane.LIVE, is_desired=True, is_lasting=True, since_ms=0, who="ann", because="x"
)


def test_a_job_runs_in_this_python_unless_a_master_is_given() -> None:
    words = launch_of(SETTINGS, {}).command(ALPHA, WANTED, 7)
    assert words[:4] == [sys.executable, "-P", "-m", "pipelines.cli.job_process"]
    assert words[4:] == ["--participant", "alpha", "--lane", "live", "--job", "7"]


def test_with_a_master_it_is_submitted_and_its_driver_stays_here() -> None:
    launch = launch_of(SETTINGS, {SPARK_MASTER: "spark://one:7077,two:7077"})
    words = launch.command(ALPHA, replace(WANTED, is_lasting=False), 7)
    assert words[0].endswith("/spark-submit")
    assert words[1:5] == ["--master", "spark://one:7077,two:7077", "--deploy-mode", "client"]
    assert words[words.index(str(SCRIPT)) :][-1] == "--until-ended"
    assert launch.environment({})[SPARK_MASTER] == "spark://one:7077,two:7077"


@pytest.mark.parametrize("master", ["local[2]", "spark://", "yarn; rm -rf /", "spark://a b", "-x"])
def test_an_invalid_master_is_refused(master: str) -> None:
    with pytest.raises(Refused, match="not the master of a cluster"):
        launch_of(SETTINGS, {SPARK_MASTER: master})


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]", " yarn "])
def test_a_driver_that_is_there_may_have_a_local_master(master: str) -> None:
    settings = SparkSettings.from_environment({SPARK_MASTER: master}, may_be_local=True)
    assert settings.master == master.strip()


@pytest.mark.parametrize(
    "master", ["spark://", "yarn; rm -rf /", "spark://a b", "-x", "local[", "mesos://a"]
)
def test_a_driver_that_is_there_refuses_a_master_that_is_none(
    master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SPARK_MASTER, master)
    with pytest.raises(Refused, match="not the master of a cluster"):
        open_session(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_of_airflow_and_no_port_of_one_reaches_a_job() -> None:
    made = launch_of(SETTINGS, {}).environment(
        {"AIRFLOW__CORE__FERNET_KEY": "x", "_AIRFLOW_X": "y", "MEDUSA_METRICS_PORT": "9464",
         "MEDUSA_UP": "mark", "PATH": "/bin"}
    )  # fmt: skip
    assert made == {
        "PATH": "/bin",
        "MEDUSA_UP": "mark",
        "MEDUSA_DIR": "/srv/homes",
        "MEDUSA_CATALOG_URL": "",
        "MEDUSA_EXCHANGE_NAME": "",
        "MEDUSA_EXCHANGE_PORT": "",
    }


@pytest.mark.parametrize(("homes", "port"), [(("alpha",), "8443"), (("alpha", "beta"), "")])
def test_the_port_of_the_exchange_reaches_the_job_of_the_only_home(
    tmp_path: Path, homes: tuple[str, ...], port: str
) -> None:
    (tmp_path / RECORD).write_text(json.dumps({"participants": {name: name for name in homes}}))
    settings = replace(SETTINGS, directory=tmp_path, exchange_port=8443)
    made = launch_of(settings, {}).environment({"MEDUSA_EXCHANGE_PORT": "8443"})
    assert made["MEDUSA_EXCHANGE_PORT"] == port


def test_a_job_receives_the_address_of_the_server_and_no_login() -> None:
    url = "postgresql+psycopg2://admin:canary@db:5433/postgres?sslmode=require&password=canary"
    made = launch_of(replace(SETTINGS, catalog_url=url), {}).environment(
        {"MEDUSA_CATALOG_URL": url}
    )
    assert made["MEDUSA_CATALOG_URL"] == "postgresql+psycopg2://db:5433/?sslmode=require"
    assert Settings.from_environment(made).catalog_url == made["MEDUSA_CATALOG_URL"]


@pytest.mark.long
def test_the_script_that_is_submitted_refuses_a_participant_without_a_home(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, str(SCRIPT), "--participant", "nobody", "--lane", "live", "--job", "1"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MEDUSA_DIR": str(tmp_path), "MEDUSA_CATALOG_URL": ""},
    )
    assert told.returncode == Refused.exit_code
    assert "there is no participant 'nobody'" in told.stderr
