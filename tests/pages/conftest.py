"""Two homes of a federation with rows as drivers leave them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.home_pool import home_pool
from tests.pages.pages_under_test import ALPHA, BETA, Shown

FRAGMENTS = """
INSERT INTO medusa.participant VALUES ('alpha'), ('beta'), ('gamma') ON CONFLICT DO NOTHING;
INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns) VALUES
    ('given', 'source', 1000000, '[]', '{}'), ('more', 'source', 1000000, '[]', '{}'),
    ('lower', 'derived', 1000000, '[]', '{}');
INSERT INTO medusa.network VALUES ('kept', '{}');
INSERT INTO medusa.plan VALUES ('plan', 'kept', '{}');
INSERT INTO medusa.fragment (id, network, inputs, outputs) VALUES
    ('landing/given', 'kept', '{}', '{given}'), ('landing/more', 'kept', '{}', '{more}'),
    ('kept/main', 'kept', '{given,more}', '{lower}');
INSERT INTO medusa.assignment (fragment, partition, epoch, participant, replica, plan) VALUES
    ('landing/given', 0, 1, 'alpha', 0, 'plan'), ('landing/more', 0, 1, 'gamma', 0, 'plan'),
    ('kept/main', 0, 1, 'beta', 0, 'plan');
INSERT INTO medusa.stream_producer (stream, participant, replica, origin_us, boundary_us) VALUES
    ('given', 'alpha', 0, 0, 9000000), ('more', 'gamma', 0, 0, 5000000),
    ('lower', 'beta', 0, 0, 9000000);
"""
LEASE = """
INSERT INTO medusa.lease VALUES ('{fragment}', 0, '{home}', 0, 'live', 3, 'host-{home}:11',
    clock_timestamp() + interval '{lasts}')
"""
STATE = """
INSERT INTO medusa.transition
    (fragment, partition, participant, replica, state, because, changed_at)
VALUES ('{fragment}', 0, '{home}', 0, '{state}', '{because}', clock_timestamp())
"""
LINK = """
INSERT INTO medusa_market.party_key (participant, public_key, learned_by, because)
SELECT '{partner}', sha256('{partner}'), 'test', 'test' WHERE NOT EXISTS (
    SELECT FROM medusa_market.party_key WHERE participant = '{partner}');
INSERT INTO medusa_market.link (partner, side, state, state_since, error, delay_ms, reported_at)
VALUES ('{partner}', 'client', '{state}', clock_timestamp(), {error}, 38, clock_timestamp())
"""


@pytest.fixture
def shown(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Shown]:
    """Alpha lands `given` and runs; beta computes from that and from what gamma, whose home is
    elsewhere, lands; beta's link with gamma is broken."""
    with home_pool(postgres_server, tmp_path, ALPHA, BETA) as settings:
        made = Shown(settings, postgres_server)
        with closing(made.readings):
            for home in (ALPHA, BETA):
                made.sql(home, FRAGMENTS)
            made.sql(ALPHA, LEASE.format(fragment="landing/given", home="alpha", lasts="1 day"))
            made.sql(BETA, LEASE.format(fragment="kept/main", home="beta", lasts="1 day"))
            made.sql(BETA, STATE.format(fragment="kept/main", home="beta", state="UP_FAILURE",
                                          because="without more"))  # fmt: skip
            made.sql(BETA, LINK.format(partner="gamma", state="unreachable", error="'gone'"))
            made.sql(BETA, LINK.format(partner="alpha", state="reachable", error="NULL"))
            yield made
