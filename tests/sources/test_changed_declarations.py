"""A loop whose sources are declared otherwise meanwhile is made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.exchange.importer import NoImports
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assigned_plans import newest_assignments
from pipelines.participant.loop import (
    DECLARATIONS_S,
    AssignmentsChanged,
    Inputs,
    ParticipantLoop,
)
from pipelines.watching.watcher import Watcher
from tests.sources.live.building import STREAM, Landing
from tests.watching.test_watcher import Time


def test_a_loop_notices_a_source_that_is_declared_otherwise(tmp_path: Path) -> None:
    catalog: Any = Landing(tmp_path).catalog
    catalog.declare_source(STREAM, '{"kind": "generate", "rate_per_s": 40}')
    time = Time()
    loop = ParticipantLoop(
        catalog=catalog,
        drivers=[],
        inputs=Inputs(importer=NoImports(), declarations=catalog.sources),
        leases=LeaseRenewer(catalog, "test"),
        observer=Watcher(catalog.participant, tmp_path),
        assignments=newest_assignments(catalog, catalog.participant),
        now_s=time,
    )
    time.now_s += DECLARATIONS_S
    loop.attempt()
    catalog.declare_source(STREAM, '{"kind": "generate", "rate_per_s": 400}')
    loop.attempt()
    time.now_s += DECLARATIONS_S
    with pytest.raises(AssignmentsChanged):
        loop.attempt()
