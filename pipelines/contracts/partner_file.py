"""The file of a partner elsewhere in a contracts folder: its name, its key and its address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, check_name
from medusa_core.protocol.introductions import Introduction
from pipelines.base.files import write_atomically
from pipelines.contracts.fields import fields_of
from pipelines.contracts.folder import SUFFIX, check_folder, check_inside
from pipelines.contracts.participants import NOWHERE, OPTIONAL, exchange_of
from pipelines.contracts.public_keys import public_key_of, public_key_text
from pipelines.contracts.yaml_values import Value, parse_yaml

_PUBLIC_KEY = re.compile(r"^(public_key:[ \t]*)[^\s#]\S*", re.MULTILINE)


def read_partner_key(contracts: Path, partner: Participant) -> bytes | None:
    """The key that a partner's file names; None if it names none, or if there is no file.

    Raises Refused for a file that is not valid, or if the contracts folder does not exist.
    """
    path = _path(contracts, partner)
    return _key_of(_checked(path, _text(path, partner), partner))


def write_partner_file(
    contracts: Path, introduction: Introduction, *, replaces_key: bool = False
) -> Path:
    """Write the file of a partner, or add the fields that it lacks; returns its path.

    Fields that the file has stay as they are, but for `public_key` if `replaces_key`. Raises
    Unavailable if it cannot be written, and Refused if the key has to be replaced by hand.
    """
    partner = introduction.participant
    path = _path(contracts, partner)
    before = text = _text(path, partner)
    present = _checked(path, text, partner)
    missing = [line for name, line in _lines(introduction).items() if name not in present]
    if replaces_key and _key_of(present) not in (None, introduction.public_key):
        key = public_key_text(introduction.public_key)
        text = _PUBLIC_KEY.sub(rf"\g<1>{key}", text)
        if _key_of(_checked(path, text, partner)) != introduction.public_key:
            raise Refused(f"{path} has public_key in another form than YAML of one line: set {key}")
    if missing:
        text += "" if text.endswith("\n") else "\n"
        text += "".join(missing)
    elif text == before:
        return path
    _checked(path, text, partner)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written ({error.strerror}): mend its folder, then run medusa "
            f"partner export {partner}"
        ) from error
    return path


def _key_of(fields: Mapping[str, Value]) -> bytes | None:
    return public_key_of(fields["public_key"]) if "public_key" in fields else None


def _lines(introduction: Introduction) -> Mapping[str, str]:
    """The fields of the file, each as the line that is written."""
    if introduction.url is None:
        address = NOWHERE
    elif introduction.pin is None:
        address = f'{{url: "{introduction.url}"}}'
    else:
        address = f'{{url: "{introduction.url}", pin: {introduction.pin}}}'
    return {
        "public_key": f"public_key: {public_key_text(introduction.public_key)}\n",
        "exchange": f"exchange: {address}\n",
    }


def _path(contracts: Path, partner: Participant) -> Path:
    check_folder(contracts)
    path = contracts / "participants" / f"{check_name('participant', partner)}{SUFFIX}"
    check_inside(contracts, path, f"{path}")
    return path


def _text(path: Path, partner: Participant) -> str:
    """The content of the file, or the first line of a new one."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return f"participant: {partner}\n"
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}): check it") from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8: write it again") from None


def _checked(path: Path, text: str, partner: Participant) -> Mapping[str, Value]:
    """The fields of the text; Refused unless it is the file of this partner."""
    document = parse_yaml(text.encode(), str(path))
    fields = fields_of(document, required=("participant",), optional=OPTIONAL)
    if fields["participant"].content != partner:
        raise fields["participant"].refused(f"is not {partner}: the file is named after it")
    if "public_key" in fields:
        public_key_of(fields["public_key"])
    if "exchange" in fields:
        exchange_of(fields["exchange"])
    return fields
