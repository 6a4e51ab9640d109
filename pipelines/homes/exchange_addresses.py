"""Where the exchange servers of the homes in one folder are reached, as each wrote it down."""

from __future__ import annotations

import re
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant, check_name
from pipelines.base.files import write_atomically

FOLDER, SUFFIX = "exchange", ".url"
_URL = re.compile(r"https?://[0-9A-Za-z.:\[\]-]{1,260}\n")
URL_BYTES_MAX = 300


def address_path(directory: Path, participant: Participant) -> Path:
    """The file with the address; `directory` is the folder of homes."""
    return directory / FOLDER / (check_name("participant", participant) + SUFFIX)


def write_address(directory: Path, participant: Participant, url: str) -> None:
    """Write down where a participant's server is reached; Unavailable if it cannot be."""
    path = address_path(directory, participant)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, url + "\n", durable=False)
    except OSError as error:
        raise Unavailable(
            f"address {path} cannot be written ({error.strerror}): mend its folder"
        ) from error


def read_address(directory: Path, participant: Participant) -> str:
    """Where a participant's server was last reached; Unavailable if it is not written down."""
    path = address_path(directory, participant)
    try:
        with path.open("rb") as file:
            text = file.read(URL_BYTES_MAX).decode("ascii", "replace")
    except OSError:
        text = ""
    if not _URL.fullmatch(text):
        raise Unavailable(
            f"the exchange of {participant} has no address here: start its server with medusa "
            f"serve --participant {participant}"
        )
    return text.strip()
