"""Settings from the environment, read once at the start of a command and passed on as a value.

All variables are optional. This module reads

* `MEDUSA_CATALOG_URL`: the Postgres server of the catalogs; `{participant}` in it stands for the
  participant's name. Without it all catalogs are in one embedded server under `MEDUSA_DIR`.
* `MEDUSA_DIR`: embedded catalog, storage roots, logs, reports. Default `.medusa` in the current
  folder.
* `MEDUSA_TEST_DATA`: recorded streams with their exact answers. Default `../shared/data` beside
  the repository; what needs it skips when it is absent.
* `MEDUSA_METRICS_PORT`: the port on 127.0.0.1 on which a driver serves its metrics; 0 chooses a
  free one; without it none are served.

Read elsewhere: `MEDUSA_SPARK_MASTER` and `MEDUSA_DRIVER_MEMORY` where a Spark session is opened,
`MEDUSA_CONTRACTS` by Airflow's tasks, `MEDUSA_FAILPOINT` and `MEDUSA_FAILPOINT_FILE` by the
failpoints of the tests, `MEDUSA_UP` by `medusa up` and `medusa down`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused

REPOSITORY = Path(__file__).resolve().parents[2]
PARTICIPANT = "{participant}"
DRIVER = "postgresql+psycopg2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The environment as values. All paths are absolute; none of them need exist."""

    catalog_url: str | None
    directory: Path
    test_data: Path
    metrics_port: int | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read the settings; an empty variable counts as absent. Refused for a bad URL or port."""
        url = environ.get("MEDUSA_CATALOG_URL", "").strip()
        directory = _folder("MEDUSA_DIR", environ.get("MEDUSA_DIR") or ".medusa")
        test_data = environ.get("MEDUSA_TEST_DATA")
        return cls(
            catalog_url=_checked_url(url) if url else None,
            directory=directory,
            test_data=(
                _folder("MEDUSA_TEST_DATA", test_data)
                if test_data
                else REPOSITORY.parent / "shared" / "data"
            ),
            metrics_port=_checked_port(environ.get("MEDUSA_METRICS_PORT", "").strip()),
        )

    def catalog_url_of(self, participant: str) -> str | None:
        """Return the URL of one participant's catalog, or None for the embedded server."""
        return self.catalog_url and self.catalog_url.replace(PARTICIPANT, participant)

    @property
    def has_catalog_per_participant(self) -> bool:
        """Whether one command can serve several homes: each has a database of its own."""
        return self.catalog_url is None or PARTICIPANT in self.catalog_url


def _checked_port(text: str) -> int | None:
    if not text:
        return None
    if not _is_port(text):
        raise Refused("MEDUSA_METRICS_PORT is not a port: write 1 to 65535, or 0 for a free one")
    return int(text)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 65_536


def _folder(variable: str, text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except (RuntimeError, OSError):
        raise Refused(f"{variable} begins with ~ of nobody here: write the whole path") from None


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
        raise Refused("MEDUSA_CATALOG_URL has a port that is none; write host:5432.")
    return f"{DRIVER}://{rest}"
