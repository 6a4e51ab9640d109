"""Holding leases while work goes on: taken once, renewed in the background, given back at the end.

A driver that is frozen does not renew, so its leases expire and its next commit is refused; one
that lost a lease learns it at the next commit or look.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from medusa_core.commits import Lease, LeaseKey
from medusa_core.errors import Conflict, MedusaError
from medusa_core.names import Epoch
from pipelines.catalog.interface import Catalog

LEASE_MS = 10_000
RENEWALS_PER_LEASE = 3


class LeaseKeeper:
    """The leases of one driver; a context manager that renews and at the end releases them."""

    def __init__(self, catalog: Catalog, holder: str, *, lease_ms: int = LEASE_MS) -> None:
        self._catalog = catalog
        self._holder = holder
        self._lease_ms = lease_ms
        self._leases: dict[LeaseKey, Lease] = {}
        self._lost: dict[LeaseKey, str] = {}
        self._guard = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep_renewing, name="leases", daemon=True)

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        for lease in self._leases.values():
            try:
                self._catalog.release_lease(lease)
            except MedusaError:
                # It expires by itself; the error that ended the work must not be hidden.
                return

    def take(self, keys: Iterable[tuple[LeaseKey, Epoch]]) -> None:
        """Take leases; raises Conflict, naming it, if another driver has one."""
        for key, epoch in keys:
            lease = self._catalog.acquire_lease(key, epoch, self._holder, self._lease_ms)
            with self._guard:
                self._leases[key] = lease
                self._lost.pop(key, None)

    def lease(self, key: LeaseKey) -> Lease:
        """The lease as last renewed; raises Conflict if it was lost."""
        with self._guard:
            if key in self._lost:
                raise Conflict(self._lost[key])
            if key not in self._leases:
                raise Conflict(f"the lease of {key} was not taken: read the assignments again")
            return self._leases[key]

    def check(self) -> None:
        """Raises Conflict if a lease was lost, as far as the last renewal could tell."""
        with self._guard:
            for said in self._lost.values():
                raise Conflict(said)

    def renew(self) -> None:
        """Renew once what is held; what is refused is lost."""
        with self._guard:
            leases = [lease for key, lease in self._leases.items() if key not in self._lost]
        for lease in leases:
            try:
                renewed = self._catalog.renew_lease(lease, self._lease_ms)
            except Conflict as error:
                with self._guard:
                    # Taken anew meanwhile, it is another lease.
                    if self._leases.get(lease.key) is lease:
                        self._lost[lease.key] = str(error)
            except MedusaError:
                # Unreachable now: try again at the next beat; the lease decides at the commit.
                continue
            else:
                with self._guard:
                    if self._leases.get(lease.key) is lease:
                        self._leases[lease.key] = renewed

    def _keep_renewing(self) -> None:
        while not self._done.wait(self._lease_ms / 1000 / RENEWALS_PER_LEASE):
            self.renew()
