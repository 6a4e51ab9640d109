"""Workers in virtual time: what moves and lost workers do to delays, by the product's decisions."""

from __future__ import annotations

from bench.partitions.command import constant, shifting
from bench.partitions.modelled import BUCKET_S, LEASE_S, Cluster


def test_a_slowed_worker_delays_results_until_it_has_given_partitions_up() -> None:
    slowed = {100.0: ("w1", 1 / 3)}
    static = Cluster(constant(1.8), seconds=500, moves=False, slowed=slowed).run()
    moving = Cluster(constant(1.8), seconds=500, slowed=slowed).run()
    assert moving.delay_s_max < static.delay_s_max / 2
    assert moving.computed == moving.buckets
    assert moving.moves_late == 0 or moving.imbalance < 1.2


def test_a_move_pauses_its_partition_for_less_than_a_bucket() -> None:
    outcome = Cluster(shifting, seconds=700).run()
    assert outcome.moves
    assert max(outcome.pauses_s) < BUCKET_S
    assert outcome.computed_twice == 0


def test_a_killed_worker_costs_its_lease_and_no_bucket() -> None:
    outcome = Cluster(constant(1.8), seconds=400, killed={105.0: "w2"}).run()
    assert outcome.computed == outcome.buckets
    assert outcome.computed_twice == 0
    assert max(outcome.pauses_s) <= LEASE_S + 1
