"""A movement contract promises what a payer and a provider can keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.availability.methods import is_possible
from medusa_core.market.documents import revision_of
from medusa_core.market.knowledge import contract_in_force
from medusa_core.market.movement_promises import check_possible
from medusa_core.market.term_rules import InvalidTerms
from medusa_core.market.terms import Availability, Method, Recovery
from tests.agreements.building import a_movement, some_terms


@given(st.sampled_from(Method), st.sampled_from(Recovery), st.integers(1, 1_000))
def test_replicas_that_no_payer_and_provider_are_are_refused(
    method: Method, recovery: Recovery, replicas: int
) -> None:
    is_active = method is Method.ACTIVE_STANDBY
    if not is_possible(method, recovery) or (is_active and replicas == 1):
        with pytest.raises(InvalidTerms):
            Availability(recovery=recovery, method=method, replicas=replicas)
        return
    availability = Availability(recovery=recovery, method=method, replicas=replicas)
    if replicas == (2 if is_active else 1):
        check_possible(availability)
    else:
        with pytest.raises(InvalidTerms, match=rf"availability.replicas is {replicas}, but"):
            check_possible(availability)


def test_rounds_know_under_which_contracts_a_payer_is_relieved_of_load() -> None:
    for method, replicas, expected in (
        (Method.UPSTREAM_BACKUP, 1, True),
        (Method.ACTIVE_STANDBY, 2, False),
    ):
        promised = Availability(recovery=Recovery.PRECISE, method=method, replicas=replicas)
        terms = some_terms(subject=a_movement(availability=promised))
        assert contract_in_force(terms, revision_of(terms)).relieves is expected
