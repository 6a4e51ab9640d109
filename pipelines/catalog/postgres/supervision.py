"""Desired and started jobs in a participant's home: each call is one statement.

The database keeps one open job for a lane, whichever process asks; see
`sql/schema/090_supervision.sql`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import RowMapping

from medusa_core.commits import Lane
from medusa_core.supervision import DesiredJob, HeldLane, Job
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts
from pipelines.catalog.worker_records import WORKER_HOLDER

TIMEOUT_MS = 15_000

TRIED_MAX = 50
"""How many jobs of what is desired are looked at: more than are tried before it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionRows:
    """What one home says at one moment, but for what is to be seen of processes."""

    now_ms: int
    reachable_since_ms: int
    desired: tuple[DesiredJob, ...]
    jobs: tuple[Job, ...]
    held: tuple[HeldLane, ...]


class PostgresSupervision(NamedStatements):
    """Jobs of the participant whose home is at `url`, as owner, job or airflow logs in."""

    def __init__(self, url: str) -> None:
        super().__init__(engine_with_timeouts(url, time_limit_ms=TIMEOUT_MS))

    def read(self) -> SupervisionRows:
        """All of it, as of one moment."""
        with errors_of_catalog(), self._snapshot() as connection:

            def rows(name: str, **values: Any) -> Sequence[RowMapping]:
                return connection.execute(query(name), values).mappings().all()

            return supervision_rows(rows)

    def mark(self) -> tuple[int, int]:
        """Two counts that grow: declarations of desired jobs, and jobs that have ended."""
        (row,) = self._rows("supervision_mark")
        return int(row["desired"]), int(row["ended"])

    def desire(
        self,
        lane: Lane,
        *,
        is_desired: bool,
        is_lasting: bool,
        because: str,
        who: str,
        renews: bool = False,
    ) -> int:
        """Declare a desired job; an equal declaration is written again only if it `renews`.

        Raises Refused for a reason or a name that is empty or too long.
        """
        values = {
            "is_desired": is_desired,
            "is_lasting": is_lasting,
            "because": because,
            "who": who,
        }
        return int(self._value("desire_job", lane=lane.value, renews=renews, **values))

    def is_desired_by(self, lane: Lane, who: str) -> bool:
        """Whether there is a declaration of `who`, however many have followed it."""
        return bool(self._value("is_desired_by", lane=lane.value, who=who))

    def intend(self, desired: int, supervisor: str) -> int:
        """The job that this supervisor is about to start; Conflict if another was first."""
        return int(self._value("intend_job", desired=desired, supervisor=supervisor))

    def take_up(self, job: int, host: str, pid: int, started: str, *, begins: bool) -> bool:
        """This process is the job's, and there if it `begins`; False if it has to end."""
        values = {"host": host, "pid": pid, "started": started, "begins": begins}
        return bool(self._value("take_up_job", job_id=job, **values))

    def stop(self, job: int, because: str) -> bool:
        """Request that it ends; False if that was requested before or it has ended."""
        return bool(self._value("stop_job", job_id=job, because=because))

    def end(self, job: int, exit_code: int | None, because: str | None) -> bool:
        """It has ended; False if that was known."""
        return bool(self._value("end_job", job_id=job, exit_code=exit_code, because=because))


class Rows(Protocol):
    """Sends a statement of `sql/queries` and returns its rows."""

    def __call__(self, name: str, **values: Any) -> Sequence[RowMapping]: ...


def supervision_rows(rows: Rows) -> SupervisionRows:
    """What one home says, as statements of one moment return it."""
    (clock,) = rows("supervision_clock")
    return SupervisionRows(
        now_ms=clock["now_ms"],
        reachable_since_ms=clock["reachable_since_ms"],
        desired=tuple(_desired_of(row) for row in rows("desired_jobs")),
        jobs=tuple(_job_of(row) for row in rows("jobs", tried_max=TRIED_MAX)),
        held=tuple(
            HeldLane(Lane(row["lane"]), row["holder"], row["expires_at_ms"])
            for row in rows("leases")
            if row["holder"] is not None
            and row["expires_at_ms"] > row["read_at_ms"]
            and not row["holder"].startswith(WORKER_HOLDER)
        ),
    )


def _desired_of(row: RowMapping) -> DesiredJob:
    return DesiredJob(**{**row, "lane": Lane(row["lane"])})


def _job_of(row: RowMapping) -> Job:
    values = {key: row[key] for key in row if key != "job_id"}
    return Job(**{**values, "id": row["job_id"], "lane": Lane(row["lane"])})
