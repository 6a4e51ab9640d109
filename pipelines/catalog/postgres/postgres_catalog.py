"""The catalog of a home in Postgres: the sum of its roles, a file each.

Every call is one statement, except that knowledge is read in one snapshot. Calls that write are
functions of the database; no lock is held across a round trip. What they decide (laws, leases,
versions) is in `sql/functions`; here is only how to call them.
"""

from __future__ import annotations

from pipelines.catalog.interface import Catalog
from pipelines.catalog.postgres.certificates import PostgresCertificates
from pipelines.catalog.postgres.deployments import PostgresDeployments
from pipelines.catalog.postgres.exchange import PostgresExchange
from pipelines.catalog.postgres.guarantees import PostgresGuarantees
from pipelines.catalog.postgres.landing import PostgresLanding
from pipelines.catalog.postgres.leases import PostgresLeases
from pipelines.catalog.postgres.lines import PostgresLines
from pipelines.catalog.postgres.loads import PostgresLoadLog
from pipelines.catalog.postgres.quarantine import PostgresQuarantine
from pipelines.catalog.postgres.recalls import PostgresRecalls
from pipelines.catalog.postgres.sinks import PostgresSinks
from pipelines.catalog.postgres.steps import PostgresSteps
from pipelines.catalog.postgres.trims import PostgresTrims
from pipelines.catalog.postgres.views import PostgresViews
from pipelines.catalog.postgres.workers import PostgresWorkers


class PostgresCatalog(
    PostgresDeployments,
    PostgresGuarantees,
    PostgresLeases,
    PostgresLanding,
    PostgresSteps,
    PostgresExchange,
    PostgresLines,
    PostgresQuarantine,
    PostgresSinks,
    PostgresCertificates,
    PostgresLoadLog,
    PostgresRecalls,
    PostgresTrims,
    PostgresViews,
    PostgresWorkers,
    Catalog,
):
    """A `Catalog` in a Postgres database that `medusa migrate` has prepared."""
