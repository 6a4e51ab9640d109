"""Opening the home that the environment names, to read in it; nothing is changed by that.

It logs in as the home's `analyst`, who may read and nothing else: with the URL of that login, if it
is the one in the environment, else with the password in the folder of homes.

A home is opened in the process where Spark plans; the workers need its folder alone, and find it
from their own environment. An embedded server that runs is attached to, else it is started for as
long as it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.postgres.snapshot_session import PostgresSession
from pipelines.catalog.server.home_databases import ROLES
from pipelines.catalog.server.roles import role_name
from pipelines.datasource.stream_snapshot import Snapshot
from pipelines.homes.home import checked_storage, home_server, known_homes


class OpenHome:
    """A home that is open for reading; `close` gives back what it took."""

    def __init__(self, participant: Participant | None) -> None:
        settings = Settings.from_environment()
        chosen = _chosen(settings, participant)
        with ExitStack() as stack:
            url = _url(settings, chosen, stack)
            try:
                self._session = PostgresSession(url, chosen)
            except Refused as error:
                if "schema_migration" not in str(error):
                    raise
                raise Unavailable(
                    f"this login may not read the home of {chosen}, or the home was last migrated "
                    "before its analyst could: run medusa migrate"
                ) from None
            self._rest = stack.pop_all()

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """All that is read in the block is of one moment."""
        with errors_of_catalog():
            self._session.begin(snapshot=True)
            try:
                yield Snapshot(self._session)
            except BaseException:
                with suppress(SQLAlchemyError):  # report the first failure, not what follows
                    self._session.end(keep=False)
                raise
            self._session.end(keep=False)

    def close(self) -> None:
        """Close connections, and stop the server if it was started for this."""
        with suppress(MedusaError, SQLAlchemyError):  # a connection that broke is closed already
            self._session.close()
        self._rest.close()


@contextmanager
def snapshot_of(participant: Participant | None) -> Iterator[Snapshot]:
    """A home opened for one snapshot."""
    home = OpenHome(participant)
    try:
        with home.snapshot() as seen:
            yield seen
    finally:
        home.close()


def storage_here(participant: Participant) -> Path:
    """The storage root of a home as this process's environment names it.

    Raises Unavailable if it is not there.
    """
    root = checked_storage(Settings.from_environment().directory, participant)
    if not root.is_dir():
        raise Unavailable(
            f"the storage root of {participant} is not at {root}: set MEDUSA_DIR, for "
            "executors too (spark.executorEnv.MEDUSA_DIR), before the session starts"
        )
    return root


def _chosen(settings: Settings, name: Participant | None) -> Participant:
    homes = known_homes(settings.directory)
    if name is not None:
        # Without homes in the folder, or with a place for the name in it, the URL is the home's.
        is_elsewhere = settings.catalog_url is not None and (
            not homes or settings.has_catalog_per_participant
        )
        if name in homes or is_elsewhere:
            return name
        hint = did_you_mean(name, homes, "it has " + (", ".join(sorted(homes)) or "none"))
        raise Refused(f"there is no home of {name} in {settings.directory}: {hint}")
    if len(homes) == 1:
        return next(iter(homes))
    if homes:
        raise Refused(f"choose one of {', '.join(sorted(homes))} with option participant")
    if settings.catalog_url is not None:
        raise Refused("name the participant whose home this is with option participant")
    raise Refused(
        f"there is no home in {settings.directory}: set MEDUSA_DIR to the folder of one, for the "
        "driver and for every executor, before the session starts"
    )


def _url(settings: Settings, participant: Participant, stack: ExitStack) -> str:
    """How an analyst logs in to the home; `stack` closes what had to be opened for that."""
    database = known_homes(settings.directory).get(participant)
    url = settings.catalog_url_of(participant)
    if url is not None:
        given = catalog_url(url)
        if database is None:
            return given.render_as_string(hide_password=False)
        if given.username in {role_name(database, role) for role in ROLES}:
            return given.set(database=database).render_as_string(hide_password=False)
    return stack.enter_context(home_server(settings, participant)).login_url("analyst")
