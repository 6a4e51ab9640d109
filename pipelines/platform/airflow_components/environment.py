"""The environment of Airflow's components: all of its settings that matter here. Pure.

No setting of the caller's own Airflow is used. Other settings may be made in
`MEDUSA_DIR/airflow/airflow.cfg`; those made here take precedence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.platform.airflow_components.airflow_folder import USER, Secrets
from pipelines.platform.airflow_components.component_processes import MARK

BUNDLE, OWN_BUNDLE = "medusa", "own"
LOOPBACK = "127.0.0.1"
_NOT_OURS = ("AIRFLOW", "_AIRFLOW", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where everything is; `programs` is the folder of `airflow` and `python`.

    `dags` are Medusa's, `own_dags` the user's.
    """

    directory: Path
    root: Path
    dags: Path
    own_dags: Path
    plugins: Path
    programs: Path
    passwords: Path
    host: str
    port: int
    database_url: str
    catalog_url: str | None

    @property
    def reached_at(self) -> str:
        """The address under which this machine reaches the API server."""
        anywhere = ("0.0.0.0", "::", "")
        host = LOOPBACK if self.host in anywhere else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def airflow_environment(
    place: Place, secrets: Secrets, environ: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a component, made from the caller's."""
    kept = {name: value for name, value in environ.items() if not name.startswith(_NOT_OURS)}
    url = place.reached_at
    settings = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "8",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(place.dags),
        "CORE__PLUGINS_FOLDER": str(place.plugins),
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__FERNET_KEY": secrets.fernet_key,
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "CORE__AUTH_MANAGER": (
            "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
        ),
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(place.passwords),
        "DATABASE__SQL_ALCHEMY_CONN": place.database_url,
        "DATABASE__SQL_ALCHEMY_CONN_ASYNC": place.database_url.replace(
            "postgresql+psycopg2://", "postgresql+psycopg://", 1
        ),
        "API__HOST": place.host,
        "API__PORT": str(place.port),
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "API__SECRET_KEY": secrets.api_secret_key,
        "API__EXPOSE_CONFIG": "False",
        "API_AUTH__JWT_SECRET": secrets.jwt_secret,
        "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
            [_bundle(BUNDLE, place.dags), _bundle(OWN_BUNDLE, place.own_dags)]
        ),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
        # Tasks are short and repeat safely: one that is silent for half a minute has died.
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "30",
        "LOGGING__BASE_LOG_FOLDER": str(place.root / "logs"),
        "LOGGING__COLORED_CONSOLE_LOG": "False",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    ours = {f"AIRFLOW__{name}": value for name, value in settings.items()}
    # Components talk to each other on this machine, never by a proxy.
    reached = url.partition("//")[2].rpartition(":")[0]
    direct = ",".join(filter(None, (kept.get("NO_PROXY", kept.get("no_proxy", "")), reached)))
    return {
        **kept,
        **ours,
        "AIRFLOW_HOME": str(place.root),
        "PATH": f"{place.programs}:{kept.get('PATH', '/usr/bin:/bin')}",
        "NO_PROXY": direct,
        "no_proxy": direct,
        "MEDUSA_DIR": str(place.directory),
        "MEDUSA_CATALOG_URL": place.catalog_url or "",
        MARK: secrets.mark,
    }


def _bundle(name: str, folder: Path) -> dict[str, object]:
    return {
        "name": name,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(folder)},
    }
