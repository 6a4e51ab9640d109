"""The file of a partner elsewhere in a contracts folder: its name, its key and its address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.base.files import write_atomically
from pipelines.contracts.fields import fields_of
from pipelines.contracts.folder import SUFFIX, check_folder, check_inside
from pipelines.contracts.participants import NOWHERE, OPTIONAL, exchange_of
from pipelines.contracts.public_keys import public_key_of, public_key_text
from pipelines.contracts.yaml_values import parse_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerFile:
    """What a partner's file is to say: `url` None for one that is not reached from here."""

    participant: Participant
    public_key: bytes
    url: str | None
    pin: str | None

    @property
    def lines(self) -> dict[str, str]:
        """The fields, each as its line."""
        pin = "" if self.pin is None else f", pin: {self.pin}"
        address = NOWHERE if self.url is None else f'{{url: "{self.url}"{pin}}}'
        return {
            "public_key": f"public_key: {public_key_text(self.public_key)}\n",
            "exchange": f"exchange: {address}\n",
        }


def check_partner_file(contracts: Path, partner: Participant, public_key: bytes) -> None:
    """Refused if the folder is none, or if its file of the partner has another key."""
    check_folder(contracts)
    path = _path(contracts, partner)
    fields = _fields(path, _content(path), partner)
    if "public_key" in fields and fields["public_key"] != public_key:
        raise Refused(
            f"{path} names another key of {partner} than its invitation: ask its operator which is "
            "right, and correct the file or refuse the invitation"
        )


def write_partner_file(contracts: Path, file: PartnerFile) -> tuple[Path, bool]:
    """Write the file, or add the fields that it lacks; its path, and whether it changed.

    What it says already stays. Raises Unavailable if it cannot be written.
    """
    check_folder(contracts)
    path = _path(contracts, file.participant)
    before = _content(path)
    fields = _fields(path, before, file.participant)
    text = before.decode() if before is not None else f"participant: {file.participant}\n"
    missing = "".join(line for name, line in file.lines.items() if name not in fields)
    if not missing:
        return path, False
    text = text + ("" if text.endswith("\n") else "\n") + missing
    _fields(path, text.encode(), file.participant)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written ({error.strerror}): mend its folder, then run medusa "
            f"partner export {file.participant}"
        ) from error
    return path, True


def _path(contracts: Path, partner: Participant) -> Path:
    path = contracts / "participants" / f"{check_name('participant', partner)}{SUFFIX}"
    check_inside(contracts, path, f"{path}")
    return path


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}): check it") from None


def _fields(path: Path, content: bytes | None, partner: Participant) -> dict[str, object]:
    """The fields of the file that a partner's file has; none if there is no file."""
    if content is None:
        return {}
    fields = fields_of(parse_yaml(content, str(path)), required=("participant",), optional=OPTIONAL)
    if fields["participant"].content != partner:
        raise fields["participant"].refused(f"is not {partner}: the file is named after it")
    found: dict[str, object] = {}
    if "public_key" in fields:
        found["public_key"] = public_key_of(fields["public_key"])
    if "exchange" in fields:
        found["exchange"] = exchange_of(fields["exchange"])
    return found
