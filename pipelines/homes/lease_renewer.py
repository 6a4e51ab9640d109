"""Leases of a driver: taken once, renewed in the background, given back at the end.

A driver that is frozen does not renew, so its leases expire and its next commit is refused; a
driver that lost a lease learns it at the next commit or check. If the thread that renews has
ended, the next check ends the driver, which would run and commit nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

from medusa_core.commits import Lane, Lease, LeaseKey
from medusa_core.errors import Conflict, MedusaError
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.names import Epoch
from pipelines.catalog.processing_roles import Leases

LEASE_MS = 10_000
RENEWALS_PER_LEASE = 3


class LeaseRenewer:
    """The leases of one driver; a context manager that renews and at the end releases them.

    `lane`: the backlog lane takes those of what is computed, in addition to the live lane's.
    """

    def __init__(
        self,
        catalog: Leases,
        holder: str,
        *,
        lease_ms: int = LEASE_MS,
        lane: Lane = Lane.LIVE,
    ) -> None:
        self._catalog = catalog
        self.lane = lane
        self.holder = holder
        self.lease_ms = lease_ms
        self.on_beat: Callable[[], None] | None = None
        """Called after each renewal, on the thread that renews, also during a long step."""
        self._leases: dict[LeaseKey, Lease] = {}
        self._lost: dict[LeaseKey, str] = {}
        self._guard = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep_renewing, name="leases", daemon=True)

    def __enter__(self) -> LeaseRenewer:
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
        try:
            if self._leases:
                self._catalog.release_leases(tuple(self._leases.values()))
        except MedusaError:
            # They expire by themselves; the error that ended the work must not be hidden.
            return

    def take(self, keys: Iterable[tuple[LeaseKey, Epoch]]) -> None:
        """Take all of these leases or none; Conflict, naming it, if another driver has one.

        Two drivers that wait for each other's leases would wait for ever: who waits has none.
        """
        requests = tuple(self._of_lane(keys))
        if not requests:
            return
        leases = self._catalog.acquire_leases(requests, self.holder, self.lease_ms)
        with self._guard:
            for lease in leases:
                self._leases[lease.key] = lease
                self._lost.pop(lease.key, None)

    def holds(self, key: LeaseKey) -> bool:
        """Whether it has the lease, as far as the last renewal could tell."""
        with self._guard:
            return key in self._leases and key not in self._lost

    def give_back(self, keys: Iterable[LeaseKey]) -> None:
        """Release some of the leases. Leases that it does not hold are ignored."""
        with self._guard:
            given = [self._leases.pop(key) for key in keys if key in self._leases]
        if given:
            self._catalog.release_leases(given)

    def forget_lost(self, keys: Iterable[LeaseKey]) -> None:
        """Remove leases that were lost: they are another driver's now."""
        with self._guard:
            for key in keys:
                if self._lost.pop(key, None) is not None:
                    self._leases.pop(key, None)

    def _of_lane(self, keys: Iterable[tuple[LeaseKey, Epoch]]) -> Iterator[tuple[LeaseKey, Epoch]]:
        """Those of the lane: what is landed and imported is the live one's alone."""
        for key, epoch in keys:
            if self.lane is Lane.LIVE or not key.fragment.startswith(("landing/", IMPORT_PREFIX)):
                yield replace(key, lane=self.lane), epoch

    def lease(self, key: LeaseKey) -> Lease:
        """The lease as last renewed; raises Conflict if it was lost."""
        with self._guard:
            if key in self._lost:
                raise Conflict(self._lost[key])
            if key not in self._leases:
                raise Conflict(f"the lease of {key} was not taken: read the assignments again")
            return self._leases[key]

    @property
    def is_renewing(self) -> bool:
        """Whether the thread is at work; true also before it begins and after it was to end."""
        was_started = self._thread.ident is not None
        return not was_started or self._thread.is_alive() or self._done.is_set()

    def check(self) -> None:
        """Raises Conflict if a lease was lost, as far as the last renewal could tell."""
        assert self.is_renewing, "the thread that renews the leases has ended"
        with self._guard:
            for sentence in self._lost.values():
                raise Conflict(sentence)

    def renew(self) -> None:
        """Renew once what is held; what is refused is lost."""
        with self._guard:
            leases = [lease for key, lease in self._leases.items() if key not in self._lost]
        if not leases:
            return
        try:
            answers = self._catalog.renew_leases(leases, self.lease_ms)
        except MedusaError:
            # Unreachable now: try again at the next beat; the lease decides at the commit.
            return
        with self._guard:
            for lease, answer in zip(leases, answers, strict=True):
                if self._leases.get(lease.key) is not lease:
                    continue  # taken anew meanwhile, it is another lease
                if isinstance(answer, Lease):
                    self._leases[lease.key] = answer
                elif isinstance(answer, Conflict):
                    self._lost[lease.key] = str(answer)

    def beat(self) -> None:
        """Renew, and do what else has to be done while this process is alive."""
        self.renew()
        if (on_beat := self.on_beat) is not None:
            with suppress(MedusaError):
                # Unreachable now: try again at the next beat.
                on_beat()

    def _keep_renewing(self) -> None:
        while not self._done.wait(self.lease_ms / 1000 / RENEWALS_PER_LEASE):
            self.beat()
