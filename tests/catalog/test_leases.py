"""S8: who does not hold an unexpired lease under the newest epoch writes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medusa_core.commits import Lane, Lease
from medusa_core.errors import Conflict, Refused
from medusa_core.names import Epoch
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a

WRITES: dict[str, tuple[str, Callable[[Catalog, Lease], object]]] = {
    "commit": (a.MAIN, lambda c, lease: c.commit(a.a_commit(a.a_segment(0, 1), lease=lease))),
    "land": (a.LANDING, lambda c, lease: c.land(lease, a.a_batch(0, {0: 1}))),
    "promise": (
        a.LANDING,
        lambda c, lease: c.promise(lease, a.SRC, origin_us=0, boundary_us=0, end_us=None),
    ),
    "renew": (a.MAIN, lambda c, lease: c.renew_lease(lease, a.HOUR_MS)),
}
every_write = pytest.mark.parametrize(("fragment", "write"), WRITES.values(), ids=list(WRITES))


def reassign(catalog: Catalog, epoch: Epoch = a.SECOND) -> None:
    assignments = tuple(a.an_assignment(name, epoch) for name in (a.LANDING, a.MAIN, a.TAIL))
    catalog.deploy(a.a_deployment(assignments=assignments))


def let_expire(catalog: Catalog, lease: Lease) -> None:
    catalog.renew_lease(lease, ttl_ms=0)


def test_a_held_lease_is_refused_to_others(catalog: Catalog) -> None:
    with pytest.raises(Conflict, match="held by me"):
        catalog.acquire_lease(a.a_key(), a.FIRST, "another", a.HOUR_MS)


def test_its_holder_takes_it_again_for_longer(catalog: Catalog) -> None:
    shorter = catalog.acquire_lease(a.a_key(), a.FIRST, "me", 1_000)
    longer = catalog.acquire_lease(a.a_key(), a.FIRST, "me", a.HOUR_MS)
    assert longer.expires_at_ms > shorter.expires_at_ms
    assert longer.expires_at_ms > catalog.read_clock_ms()


def test_a_lease_that_expired_may_be_taken_by_another(catalog: Catalog) -> None:
    let_expire(catalog, a.a_lease())
    taken = catalog.acquire_lease(a.a_key(), a.FIRST, "another", a.HOUR_MS)
    assert taken.holder == "another"


def test_a_lease_given_back_is_free_at_once(catalog: Catalog) -> None:
    catalog.release_lease(a.a_lease())
    assert catalog.acquire_lease(a.a_key(), a.FIRST, "another", a.HOUR_MS).holder == "another"


def test_a_driver_cannot_give_back_the_lease_of_another(catalog: Catalog) -> None:
    catalog.release_lease(a.a_lease(holder="another"))
    catalog.release_lease(a.a_lease(epoch=a.SECOND))
    assert catalog.renew_lease(a.a_lease(), a.HOUR_MS).holder == "me"


def test_lanes_and_replicas_are_leased_apart(catalog: Catalog) -> None:
    backlog = a.a_key(lane=Lane.BACKLOG)
    assert catalog.acquire_lease(backlog, a.FIRST, "another", a.HOUR_MS).holder == "another"


def test_a_fragment_that_nobody_deployed_has_no_lease(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="not deployed"):
        catalog.acquire_lease(a.a_key("example/none"), a.FIRST, "me", a.HOUR_MS)


def test_a_replica_without_an_assignment_has_no_lease(catalog: Catalog) -> None:
    key = a.a_key(producer=a.Producer(a.ALPHA, replica=1))
    with pytest.raises(Refused, match="not assigned"):
        catalog.acquire_lease(key, a.FIRST, "me", a.HOUR_MS)


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_lease_is_taken_under_the_newest_epoch_only(catalog: Catalog, epoch: int) -> None:
    with pytest.raises(Conflict, match="under epoch 1"):
        catalog.acquire_lease(a.a_key(), Epoch(epoch), "me", a.HOUR_MS)


@every_write
def test_a_write_with_an_expired_lease_is_refused(
    catalog: Catalog, fragment: str, write: Callable[[Catalog, Lease], object]
) -> None:
    lease = a.a_lease(fragment)
    let_expire(catalog, lease)
    with pytest.raises(Conflict, match="expired"):
        write(catalog, lease)
    assert catalog.steps() == ()


@every_write
def test_a_write_with_a_lease_that_another_took_is_refused(
    catalog: Catalog, fragment: str, write: Callable[[Catalog, Lease], object]
) -> None:
    lease = a.a_lease(fragment)
    let_expire(catalog, lease)
    catalog.acquire_lease(lease.key, a.FIRST, "another", a.HOUR_MS)
    with pytest.raises(Conflict, match="not held by me"):
        write(catalog, lease)


@every_write
def test_a_write_under_an_epoch_older_than_the_home_knows_is_refused(
    catalog: Catalog, fragment: str, write: Callable[[Catalog, Lease], object]
) -> None:
    reassign(catalog)
    with pytest.raises(Conflict, match="epoch 2"):
        write(catalog, a.a_lease(fragment))


@every_write
def test_a_write_without_any_lease_is_refused(
    catalog: Catalog, fragment: str, write: Callable[[Catalog, Lease], object]
) -> None:
    with pytest.raises(Conflict, match="not held"):
        write(catalog, a.a_lease(fragment, lane=Lane.BACKLOG))


def test_the_holder_goes_on_under_the_new_epoch_once_it_took_it(catalog: Catalog) -> None:
    reassign(catalog)
    lease = catalog.acquire_lease(a.a_key(), a.SECOND, "me", a.HOUR_MS)
    assert catalog.commit(a.a_commit(a.a_segment(0, 1), lease=lease)).versions == {a.SUMS: 1}


KEYS = [(a.a_key(name), a.FIRST) for name in (a.TAIL, a.LANDING, a.MAIN)]


def test_several_leases_are_taken_in_one_call_in_the_order_asked_for(catalog: Catalog) -> None:
    leases = catalog.acquire_leases(KEYS, "me", 2 * a.HOUR_MS)
    assert [(lease.key, lease.epoch) for lease in leases] == KEYS
    held = {r.lease.key: r.lease.expires_at_ms for r in catalog.leases()}
    assert [held[lease.key] for lease in leases] == [lease.expires_at_ms for lease in leases]
    assert catalog.acquire_leases((), "me", 1) == ()


def test_where_one_lease_is_anothers_none_is_taken(catalog: Catalog) -> None:
    for key, epoch in KEYS[:2]:
        catalog.release_lease(a.a_lease(key.fragment, epoch=epoch))
    with pytest.raises(Conflict, match="held by me"):
        catalog.acquire_leases(KEYS, "another", a.HOUR_MS)
    assert not any(r.lease.holder == "another" and r.is_held for r in catalog.leases())


def test_each_of_several_leases_is_renewed_or_refused_for_itself(catalog: Catalog) -> None:
    leases = [a.a_lease(name) for name in (a.TAIL, a.LANDING, a.MAIN)]
    let_expire(catalog, leases[1])
    tail, landing, main = catalog.renew_leases(leases, 2 * a.HOUR_MS)
    assert isinstance(landing, Conflict)
    assert "expired" in str(landing)
    assert isinstance(tail, Lease)
    assert isinstance(main, Lease)
    assert main.expires_at_ms > catalog.read_clock_ms() + a.HOUR_MS
    assert [r.is_held for r in catalog.leases()] == [True, True, False]
    others = catalog.renew_leases([a.a_lease(holder="another"), a.a_lease(epoch=a.SECOND)], 1)
    assert all(isinstance(answer, Conflict) for answer in others)


def test_leases_under_an_old_epoch_are_not_renewed(catalog: Catalog) -> None:
    reassign(catalog)
    (answer,) = catalog.renew_leases([a.a_lease()], a.HOUR_MS)
    assert isinstance(answer, Conflict)
    assert "epoch 2" in str(answer)


def test_several_leases_are_given_back_but_not_those_of_another(catalog: Catalog) -> None:
    catalog.release_leases([a.a_lease(), a.a_lease(a.TAIL, holder="another")])
    held = {r.lease.key.fragment for r in catalog.leases() if r.is_held}
    assert held == {a.TAIL, a.LANDING}
