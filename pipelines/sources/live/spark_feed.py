"""A source of Spark's own (`readStream`) as it is declared: format, options, columns.

Options are stored in the catalog as they are written, so none may carry a secret: `${NAME}` in a
value refers to a variable of the driver's environment and is replaced when the source is opened.
A key that is known to carry a secret, a password in a URL or in a list of settings is refused
unless it is written so. Limit: a secret under a name of another kind is not recognised. Only
variables for sources may be named (`SOURCE_VARIABLES`): the options also name the host that
receives them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.names import StreamName
from pipelines.base.settings import SOURCE_VARIABLES
from pipelines.sources.live.declared_fields import RECORDS_PER_S_MAX, Fields, Timing, Where

EVERY_US = 2_000_000
OPTIONS_MAX = 200
FILE_FORMATS = ("json", "csv", "parquet", "orc", "text")
_FORMAT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,199}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,199}")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_WORDS = ("password", "passwd", "passphrase", "pwd", "secret", "token", "credential",
                 "apikey", "accesskey", "accountkey", "privatekey", "signature")  # fmt: skip
_SETTING = re.compile(
    rf"(?i)(?:{'|'.join((*_SECRET_WORDS, 'sig'))})[\"']?\s*[=:]\s*[\"']?(?!\$\{{)[^\s\"';&,]"
)
_URL_PASSWORD = re.compile(r"://[^/@\s:]*:(?!\$\{[A-Za-z_][A-Za-z0-9_]*\}@)[^/@\s]+@")
_OURS = {
    "path": "the field path",
    "checkpointlocation": "nothing: Medusa keeps the checkpoint",
    "queryname": "nothing",
    "maxfilespertrigger": "the field files_per_poll",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFeed:
    """What to read, and how its rows become records.

    `columns` maps declared columns to expressions over those of the source; others are filled by
    name. `order` are expressions by which the rows of a batch are put in order (None: the
    format's). `schema` is Spark DDL, for formats that want one. The source is polled every
    `every_us` at most. `where`: which records are this stream's (None: all).
    """

    format: str
    timing: Timing
    path: Path | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] | None = None
    every_us: int = EVERY_US
    files_per_poll: int | None = None
    records_per_s: int | None = None
    where: Where | None = None

    def __post_init__(self) -> None:
        freeze(self, "options", "columns")

    @property
    def reads_files(self) -> bool:
        """Whether it is one of Spark's file formats."""
        return self.format in FILE_FORMATS


def spark_feed(fields: Fields) -> SparkFeed:
    """The declaration of a source of Spark's; Refused for anything else."""
    format_ = fields.text("format")
    if format_ is None or not _FORMAT.fullmatch(format_):
        raise fields.refused("format", format_, "a format of Spark's, such as rate or kafka")
    given = fields.take("path")
    path = None if given is None else fields.path("path", given)
    if (path is not None) != (format_ in FILE_FORMATS):
        needed = "the folder to read" if path is None else f"none: {format_} has no path"
        raise fields.refused("path", given, needed)
    schema = fields.text("schema")
    files_per_poll = fields.whole("files_per_poll", None, 1, 100_000)
    if files_per_poll and path is None:
        raise fields.refused("files_per_poll", files_per_poll, f"none: {format_} reads no files")
    feed = SparkFeed(
        format=format_,
        path=path,
        schema=schema,
        options=_options(fields),
        columns=_expressions(fields),
        order=_order(fields),
        every_us=fields.duration_us("every") or EVERY_US,
        files_per_poll=files_per_poll,
        records_per_s=fields.whole("records_per_s", None, 1, RECORDS_PER_S_MAX),
        timing=fields.timing(),
        where=fields.where(),
    )
    fields.check_all_known()
    return feed


def resolved_options(
    stream: StreamName, feed: SparkFeed, environment: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The options with variables put in, and the values of these, which nothing may show.

    Raises Refused, naming the variable, if it is not set or not for sources.
    """
    secrets: set[str] = set()

    def value_of(match: re.Match[str]) -> str:
        if not match[1].startswith(SOURCE_VARIABLES):
            raise Refused(
                f"the source of {stream} names the variable {match[1]}, but a source receives only "
                f"variables that begin with {SOURCE_VARIABLES}: export it as "
                f"{SOURCE_VARIABLES}{match[1]}, and write that name"
            )
        if match[1] not in environment:
            raise Refused(
                f"the source of {stream} reads ${{{match[1]}}}, which is not set in the driver's "
                "environment: set it where the participant is run"
            )
        secrets.add(environment[match[1]])
        return environment[match[1]]

    found = {key: _REFERENCE.sub(value_of, text) for key, text in feed.options.items()}
    return found, tuple(sorted(filter(None, secrets), key=len, reverse=True))


def _options(fields: Fields) -> dict[str, str]:
    given = fields.take("options")
    if given is None:
        return {}
    if not isinstance(given, Mapping) or len(given) > OPTIONS_MAX:
        raise fields.refused("options", "…", f"a mapping of at most {OPTIONS_MAX} options")
    found: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise fields.refused("the option", key, "letters, digits, dots, '-' and '_' as a key")
        if key.lower() in _OURS:
            raise fields.refused("the option", key, f"{_OURS[key.lower()]} instead")
        if key.lower() in (known.lower() for known in found):
            raise fields.refused("the option", key, "it once: Spark does not tell case apart")
        text = _text(value)
        if text is None or "\0" in text:
            raise fields.refused(f"options.{key}", "…", "a text, a number, true or false")
        if _is_secret(key, text):
            # The value is not shown: it may be what should not have been written.
            raise fields.refused(
                f"options.{key}", "…", f"${{{SOURCE_VARIABLES}NAME}}, a variable of the driver's "
                "environment: what is written here is kept in the catalog for all to read"
            )  # fmt: skip
        if any(not name.startswith(SOURCE_VARIABLES) for name in _REFERENCE.findall(text)):
            raise fields.refused(
                f"options.{key}", "…",
                f"only variables that begin with {SOURCE_VARIABLES}, such as "
                f"${{{SOURCE_VARIABLES}PASSWORD}}: a source receives no others",
            )  # fmt: skip
        found[key] = text
    return found


def _text(value: object) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case _:
            return None


def _is_secret(key: str, text: str) -> bool:
    """Whether an option holds in clear what should be kept."""
    if not text:
        return False
    plain = re.sub(r"[^a-z]", "", key.lower())
    is_settings = "jaas" in plain or "=" in text
    if any(word in plain for word in _SECRET_WORDS) and not is_settings:
        return not _REFERENCE.fullmatch(text)
    if any(word in plain for word in _SECRET_WORDS) and "${" not in text:
        return True
    return bool(_SETTING.search(text) or _URL_PASSWORD.search(text))


def _expressions(fields: Fields) -> dict[str, str]:
    given = fields.take("columns")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise fields.refused("columns", given, "a mapping of columns to expressions")
    for name, text in given.items():
        if not isinstance(name, str) or not isinstance(text, str) or not text.strip():
            raise fields.refused(f"columns.{name}", text, "an expression, such as upper(host)")
    return dict(given)


def _order(fields: Fields) -> tuple[str, ...] | None:
    given = fields.take("order")
    if given is None:
        return None
    if not isinstance(given, list | tuple) or not all(isinstance(e, str) and e for e in given):
        raise fields.refused("order", given, "a list of expressions, such as [partition, offset]")
    return tuple(given)
