"""The whole catalog of a home: the sum of its roles, as `open_home` holds it.

A home's catalog is its only truth about its progress. Code that is given a catalog names the roles
it needs (`processing_roles`, `reading_roles`), not the sum. `postgres` implements all of them;
`memory` implements those that are simulated or faked in tests, and one suite keeps both alike.
"""

from __future__ import annotations

from typing import Protocol

from pipelines.catalog.processing_roles import (
    ContractPresence,
    Deployments,
    Guarantees,
    Imports,
    LandedFiles,
    Landing,
    LateRecords,
    Leases,
    Owners,
    Readers,
    Recalls,
    Steps,
    Trims,
)
from pipelines.catalog.reading_roles import (
    Certificates,
    Cursors,
    Lines,
    LineVersions,
    LoadLog,
    Quarantine,
    Sinks,
    StepHistory,
    Views,
)
from pipelines.catalog.worker_records import Placements


class Catalog(
    Deployments,
    Owners,
    Guarantees,
    ContractPresence,
    Leases,
    Landing,
    LateRecords,
    LandedFiles,
    Steps,
    StepHistory,
    Imports,
    Readers,
    Lines,
    LineVersions,
    Quarantine,
    Cursors,
    Views,
    Sinks,
    Certificates,
    LoadLog,
    Recalls,
    Trims,
    Placements,
    Protocol,
):
    """One home: every role."""

    def close(self) -> None:
        """Give connections back."""


class Session(Protocol):
    """A connection on which a test opens and ends transactions itself.

    `begin(snapshot=True)` is REPEATABLE READ, READ ONLY; else READ COMMITTED. Calls outside of a
    transaction are transactions of their own. A call that must wait for another session's lock
    raises `Waiting` where the implementation is set not to block (see the suites).
    """

    def begin(self, *, snapshot: bool = False) -> None: ...

    def end(self, *, keep: bool) -> None:
        """COMMIT (`keep`) or ROLLBACK."""

    @property
    def catalog(self) -> Catalog:
        """The catalog's calls, made inside this session."""
