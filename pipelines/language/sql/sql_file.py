"""A SQL file as a network: read, compiled and checked, with line and column of what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.names import NAME_PATTERN
from medusa_core.network import Network
from pipelines.language.check import check_network
from pipelines.language.sql.network_builder import network_of_statements
from pipelines.language.sql.sql_text import SqlText
from pipelines.language.sql.statement_parser import statements_of
from pipelines.language.zone_database import with_zone_offsets

SUFFIX = ".sql"
SIZE_MAX = 1 << 20


def network_of_sql(path: Path) -> Network:
    """The network of a SQL file; raises Refused naming file, line and column."""
    try:
        content = path.read_bytes() if path.stat().st_size <= SIZE_MAX else None
    except FileNotFoundError:
        raise Refused(f"there is no file {path}: check the path") from None
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}): check its rights") from None
    if content is None:
        raise Refused(f"{path} has more than {SIZE_MAX >> 20} MiB: divide it over several networks")
    try:
        written = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    return network_of_sql_text(written, str(path), path.stem)


def network_of_sql_text(written: str, file: str, stem: str) -> Network:
    """The network of a text; `stem` names it if it has no CREATE NETWORK."""
    text = SqlText.of(file, written)
    statements = statements_of(text)
    if not statements:
        raise Refused(f"{file} has no statement: write CREATE SOURCE and CREATE STREAM")
    name = re.sub(r"\W", "_", stem.lower())
    if not re.fullmatch(NAME_PATTERN, name):
        name = f"network_{name}"[:63]
    network, places = network_of_statements(text, statements, name)
    network = with_zone_offsets(network)
    check_network(network, places)
    return network
