"""The start of a participant's job: a process of this machine, its steps here or on a cluster.

The driver is always a process of this machine, detached from its parent. With a master it is
started by spark-submit in client mode, so that its steps run on the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from medusa_core.commits import Lane
from medusa_core.names import Participant
from medusa_core.supervision import DesiredJob
from pipelines.base.settings import REPOSITORY, SPARK_MASTER, Settings, SparkSettings, environment
from pipelines.homes.home import known_homes, without_login
from pipelines.platform.jobs.job_processes import Process, make_process
from pipelines.spark.java import java_home

SCRIPT = REPOSITORY / "pipelines" / "cli" / "spark_submit" / "participant.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How jobs are started; without a master, their steps run in their own process.

    `lease_s`: how long leases are (None: as medusa run has it).
    """

    settings: Settings
    spark: SparkSettings = field(default_factory=SparkSettings)
    lease_s: float | None = None

    def log(self, participant: Participant, lane: Lane) -> Path:
        """What the jobs of a participant and lane say."""
        return self.settings.directory / "logs" / f"job-{participant}-{lane.value}.out"

    def make(
        self, participant: Participant, desired: DesiredJob, job: int, lock: int | None = None
    ) -> Process:
        """Start the process of an intended job, which has the lane's lock from then on.

        Raises Unavailable if it cannot be made.
        """
        return make_process(
            self.command(participant, desired, job),
            self.environment(environment()),
            self.log(participant, desired.lane),
            self.settings.directory,
            () if lock is None else (lock,),
        )

    def command(self, participant: Participant, desired: DesiredJob, job: int) -> list[str]:
        """The words of the process."""
        words = ["--participant", participant, "--lane", desired.lane.value, "--job", str(job)]
        if desired.lane is Lane.LIVE and not desired.is_lasting:
            words.append("--until-ended")
        if self.lease_s is not None:
            words += ["--lease", str(self.lease_s)]
        if self.spark.master is None:
            return [sys.executable, "-P", "-m", "pipelines.cli.job_process", *words]
        submit = Path(sys.executable).with_name("spark-submit")
        return [
            str(submit), "--master", self.spark.master, "--deploy-mode", "client",
            "--conf", "spark.log.level=WARN",
            "--driver-memory", self.spark.driver_memory,
            "--name", f"medusa-{participant}-{desired.lane.value}", str(SCRIPT), *words,
        ]  # fmt: skip

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Ours for the process: nothing of Airflow's reaches it, and it finds the same homes.

        An administrator's login does not reach it: a participant needs none.
        """
        ours = {k: v for k, v in environ.items() if not k.startswith(("AIRFLOW", "_AIRFLOW"))}
        # One port cannot serve the metrics of several jobs; 0 is a free one for each.
        if ours.get("MEDUSA_METRICS_PORT", "").strip() != "0":
            ours.pop("MEDUSA_METRICS_PORT", None)
        settings = without_login(self.settings)
        # Nor can one serve the exchanges of several homes.
        if len(known_homes(settings.directory)) > 1:
            settings = replace(settings, exchange_port=None)
        ours = settings.environment_of_child(ours)
        if self.spark.master is not None:
            ours[SPARK_MASTER] = self.spark.master
            ours["JAVA_HOME"] = java_home(self.settings.directory)
            ours["PYSPARK_PYTHON"] = ours["PYSPARK_DRIVER_PYTHON"] = sys.executable
        return ours


def launch_of(
    settings: Settings, environ: Mapping[str, str], *, lease_s: float | None = None
) -> Launch:
    """As the environment says; Refused for a master that is not that of a cluster."""
    spark = SparkSettings.from_environment(environ, may_be_local=False)
    return Launch(settings=settings, spark=spark, lease_s=lease_s)
