"""Settings from the environment, read once at the start of a command and passed on as a value.

This module alone reads and sets the environment of this process. All variables are optional:

* `MEDUSA_CATALOG_URL`: the Postgres server of the catalogs, with its administrator's login to make
  homes; `{participant}` in it is replaced by the participant's name. Without it new homes are in
  one embedded server under `MEDUSA_DIR`, and homes that exist are opened where they were made.
* `MEDUSA_DIR`: embedded catalog, storage roots, logs, reports. Default `.medusa` in the current
  folder.
* `MEDUSA_TEST_DATA`: recorded streams with their exact answers. Default `../shared/data` next to
  the repository; tests that need it skip when it is absent.
* `MEDUSA_METRICS_PORT`: the port on which a driver serves its metrics; 0 chooses a free one;
  without it none are served.
* `MEDUSA_METRICS_HOST`: the address on which it does, default 127.0.0.1.
* `MEDUSA_EXCHANGE_NAME`: the host name by which partners on other machines or in other containers
  reach this one, over TLS; without it a home is served on 127.0.0.1 only, over plain HTTP. With
  `localhost` it is served on 127.0.0.1 only, over TLS.
* `MEDUSA_EXCHANGE_PORT`: the port on which a home is served; without it a free one.
* `MEDUSA_SPARK_MASTER`: the cluster on which steps run; without it they run in the driver's JVM.
* `MEDUSA_DRIVER_MEMORY`: the heap of a driver's JVM with the unit k, m, g or t, default 2g.
* `MEDUSA_ENGINE`: `auto`, `spark` or `kernel`. With `auto`, the default, DuckDB in Spark's tasks
  computes long steps of fragments that have a kernel, and Spark SQL all others; with `kernel` short
  ones too; with `spark`, Spark SQL computes all steps.
* `MEDUSA_PAGE_HOMES`: who sees which homes on the operator's page
  (`pipelines/homes/page_access.py`).
* `MEDUSA_FAILPOINT`, `MEDUSA_FAILPOINT_FILE`: where a test stops the process (`failpoints.py`).

Declarations of sinks and of sources may name variables that begin with `SINK_VARIABLES` and
`SOURCE_VARIABLES`. Airflow's tasks also read `MEDUSA_CONTRACTS`; `medusa up` marks its processes
with `MEDUSA_UP`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType

from medusa_core.errors import Refused

REPOSITORY = Path(__file__).resolve().parents[2]
PARTICIPANT = "{participant}"
OBJECT_SETTINGS = "object-store.json"
"""The file in a storage root with the settings of its bucket."""
DRIVER = "postgresql+psycopg2"
CATALOG_URL, DIRECTORY = "MEDUSA_CATALOG_URL", "MEDUSA_DIR"
SPARK_MASTER, DRIVER_MEMORY = "MEDUSA_SPARK_MASTER", "MEDUSA_DRIVER_MEMORY"
ENGINE = "MEDUSA_ENGINE"
EXCHANGE_NAME, EXCHANGE_PORT = "MEDUSA_EXCHANGE_NAME", "MEDUSA_EXCHANGE_PORT"
METRICS_PORT, METRICS_HOST = "MEDUSA_METRICS_PORT", "MEDUSA_METRICS_HOST"
LOOPBACK = "127.0.0.1"
FAILPOINT, FAILPOINT_FILE = "MEDUSA_FAILPOINT", "MEDUSA_FAILPOINT_FILE"
SINK_VARIABLES, SOURCE_VARIABLES = "MEDUSA_SINK_", "MEDUSA_SOURCE_"
"""How the variables begin that the declaration of a sink, or of a source, may name: a declaration
says where they are sent, so no other secret of the driver is in reach of who writes one."""
_CLUSTER = re.compile(r"spark://[\w.,:\[\]-]+|yarn|k8s://[\w.:/\[\]-]+")
_HOST_NAME = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.-]{0,251}[0-9A-Za-z])?")
_MEMORY = re.compile(r"[1-9][0-9]{0,11}[kmgt]", re.IGNORECASE)
_LOCAL = re.compile(r"local(\[[\w*]+(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]")


def environment() -> Mapping[str, str]:
    """The environment of this process, read-only and always current.

    For variables that are not Medusa's: those that a declaration names as `${NAME}`, and Java's.
    """
    return MappingProxyType(os.environ)


def set_environment(variables: Mapping[str, str]) -> None:
    """Set variables for libraries of this process and for the processes that these start."""
    os.environ.update(variables)


@contextmanager
def child_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started in the block, also by libraries."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The environment as values. All paths are absolute; none of them need exist."""

    catalog_url: str | None
    directory: Path
    test_data: Path
    metrics_port: int | None = None
    metrics_host: str = LOOPBACK
    exchange_name: str | None = None
    exchange_port: int | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings, of this process by default; an empty variable counts as absent.

        Refused for a value that is not valid.
        """
        environ = environment() if environ is None else environ
        # A command that uses none of these says so before it begins, as those that do.
        Failpoint.from_environment(environ)
        SparkSettings.from_environment(environ, may_be_local=True)
        url = environ.get(CATALOG_URL, "").strip()
        directory = _folder(DIRECTORY, environ.get(DIRECTORY) or ".medusa")
        test_data = environ.get("MEDUSA_TEST_DATA")
        return cls(
            catalog_url=_checked_url(url) if url else None,
            directory=directory,
            test_data=(
                _folder("MEDUSA_TEST_DATA", test_data)
                if test_data
                else REPOSITORY.parent / "shared" / "data"
            ),
            exchange_name=_checked_host_name(environ.get(EXCHANGE_NAME, "").strip()),
            exchange_port=_checked_port(EXCHANGE_PORT, environ),
            metrics_port=_checked_port(METRICS_PORT, environ),
            metrics_host=_checked_address(METRICS_HOST, environ),
        )

    def catalog_url_of(self, participant: str) -> str | None:
        """Return the URL of one participant's catalog, or None for the embedded server."""
        return self.catalog_url and self.catalog_url.replace(PARTICIPANT, participant)

    @property
    def has_catalog_per_participant(self) -> bool:
        """Whether one command can serve several homes: each has a database of its own."""
        return self.catalog_url is None or PARTICIPANT in self.catalog_url

    def environment_of_child(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """An environment, of this process by default, in which a child finds the same homes."""
        return {
            **(environment() if environ is None else environ),
            DIRECTORY: str(self.directory),
            CATALOG_URL: self.catalog_url or "",
            EXCHANGE_NAME: self.exchange_name or "",
            EXCHANGE_PORT: str(self.exchange_port or ""),  # 0 and unset both mean a free port
        }


class Engine(StrEnum):
    """What computes the steps of a driver: kernels the long ones, Spark SQL, or kernels all."""

    AUTO = "auto"
    SPARK = "spark"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Where the steps of a driver run and how much memory its JVM may take."""

    master: str | None = None
    driver_memory: str = "2g"
    engine: Engine = Engine.AUTO

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, *, may_be_local: bool
    ) -> SparkSettings:
        """Read the settings; Refused for a value that is not valid.

        A local master is valid only in a driver that already runs.
        """
        environ = environment() if environ is None else environ
        master = environ.get(SPARK_MASTER, "").strip()
        is_local = may_be_local and _LOCAL.fullmatch(master)
        if master and not is_local and not _CLUSTER.fullmatch(master):
            raise Refused(
                f"{SPARK_MASTER} is not the master of a cluster: write spark://HOST:PORT, yarn or "
                "k8s://HOST:PORT"
            )
        engine = environ.get(ENGINE, "").strip() or Engine.AUTO
        if engine not in list(Engine):
            raise Refused(f"{ENGINE} is {engine!r}: write auto, spark or kernel")
        memory = environ.get(DRIVER_MEMORY, "").strip() or "2g"
        if not _MEMORY.fullmatch(memory):
            raise Refused(
                f"{DRIVER_MEMORY} is not a size of memory: write a whole number and the unit k, m, "
                "g or t, such as 2g"
            )
        return cls(
            master=master or None,
            driver_memory=memory,
            engine=Engine(engine),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failpoint:
    """Where this process stops: at which pass of which point, announced in which file."""

    point: str
    pass_number: int
    file: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Failpoint | None:
        """Read it; None without one. Refused for a pass that is not a number from 1."""
        environ = environment() if environ is None else environ
        point, _, text = environ.get(FAILPOINT, "").partition(":")
        file = environ.get(FAILPOINT_FILE)
        if not point or not file:
            return None
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        if text and not (is_number and int(text) > 0):
            raise Refused(f"{FAILPOINT} is not valid: write POINT, or POINT:PASS with PASS from 1")
        return cls(point=point, pass_number=int(text or 1), file=Path(file))


def _checked_host_name(text: str) -> str | None:
    if text and not _HOST_NAME.fullmatch(text):
        raise Refused(
            f"{EXCHANGE_NAME} is not the name of a host: write the name by which partners reach "
            "this machine"
        )
    return text or None


def _checked_address(name: str, environ: Mapping[str, str]) -> str:
    text = environ.get(name, "").strip()
    try:
        return str(ip_address(text)) if text else LOOPBACK
    except ValueError:
        raise Refused(
            f"{name} {text!r} is not an address: write an IP address of this machine, or 0.0.0.0 "
            "for all of them"
        ) from None


def _checked_port(variable: str, environ: Mapping[str, str]) -> int | None:
    text = environ.get(variable, "").strip()
    if not text:
        return None
    if not _is_port(text):
        raise Refused(f"{variable} is not a port: write 1 to 65535, or 0 for a free one")
    return int(text)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 65_536


def _folder(variable: str, text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except (RuntimeError, OSError):
        raise Refused(
            f"{variable} begins with ~ and a user that does not exist: write the whole path"
        ) from None


def _checked_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("postgres", "postgresql", DRIVER) or not rest:
        # The value is not repeated: it may hold a password.
        raise Refused(
            "MEDUSA_CATALOG_URL is not a Postgres URL; write "
            "postgresql://user:password@host:5432/database, or unset it for the embedded server."
        )
    without_name = rest.replace(PARTICIPANT, "")
    if "{" in without_name or "}" in without_name:
        raise Refused("MEDUSA_CATALOG_URL has a {…} that is not {participant}; write it %7B…%7D.")
    port = rest.partition("?")[0].rpartition("@")[2].partition("/")[0].rpartition("]")[2]
    if ":" in port and not _is_port(port.rpartition(":")[2]):
        raise Refused("MEDUSA_CATALOG_URL has a port that is not valid; write host:5432.")
    return f"{DRIVER}://{rest}"
