"""The connection type `medusa`: where homes and contracts are.

Without a connection the environment is used, as by the commands: MEDUSA_DIR, MEDUSA_CATALOG_URL,
and MEDUSA_CONTRACTS for the folder below which contracts are (default: `contracts` next to
MEDUSA_DIR).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from medusa_core.errors import MedusaError
from pipelines.base.settings import Settings, environment

DEFAULT = "medusa_default"
CONTRACTS = "MEDUSA_CONTRACTS"
MASTER = "MEDUSA_SPARK_MASTER"


class MedusaHook(BaseHook):
    """The settings of an installation, from its connection or from the environment."""

    conn_name_attr = "medusa_conn_id"
    default_conn_name = DEFAULT
    conn_type = "medusa"
    hook_name = "Medusa"

    _fields: ClassVar[tuple[str, ...]] = ("directory", "contracts", "spark_master")

    def __init__(self, medusa_conn_id: str = DEFAULT) -> None:
        super().__init__()
        self.medusa_conn_id = medusa_conn_id

    def environment(self) -> dict[str, str]:
        """The connection's settings, as environment variables."""
        variables = dict(environment())
        try:
            connection = self.get_connection(self.medusa_conn_id)
        except AirflowNotFoundException:
            return variables
        extra = connection.extra_dejson
        if connection.password:
            variables["MEDUSA_CATALOG_URL"] = connection.password
        for field, variable in zip(self._fields, ("MEDUSA_DIR", CONTRACTS, MASTER), strict=True):
            if extra.get(field):
                variables[variable] = str(extra[field])
        return variables

    def settings(self) -> Settings:
        """Where homes are; Refused for a URL or folder that cannot be."""
        settings = Settings.from_environment(self.environment())
        return replace(settings, metrics_port=None)

    def contracts_root(self) -> Path:
        """The folder below which contracts are."""
        given = self.environment().get(CONTRACTS)
        return Path(given).expanduser() if given else self.settings().directory.parent / "contracts"

    def test_connection(self) -> tuple[bool, str]:
        """For the button of the form: whether homes are there and can be reached."""
        from pipelines.homes.home import known_homes
        from pipelines.platform.jobs.supervised_homes import open_jobs

        try:
            settings = self.settings()
            names = sorted(known_homes(settings.directory))
            with open_jobs(settings) as jobs:
                for name in names:
                    jobs.of(name).mark()
        except MedusaError as error:
            return False, str(error)
        return True, f"homes of {', '.join(names) or 'nobody yet'} in {settings.directory}"
