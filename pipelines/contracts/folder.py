"""The contracts folder: which files are read, and that no path in them leads out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medusa_core.errors import Refused
from pipelines.contracts.fields import Named, name_of
from pipelines.contracts.yaml_values import Value, read_yaml

SUFFIX = ".yaml"
OWNERS_MAX = 9
NAME_FIELD = {"participants": "participant", "streams": "stream"}


def contract_files(directory: Path, kind: str) -> Iterator[tuple[Value, Named]]:
    """Each contract of a kind (participants, streams) by file name, with the name it declares.

    Raises Refused if a file is not named after what it declares, or leads out of the folder.
    """
    folder = directory / kind
    field = NAME_FIELD[kind]
    try:
        found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(f"{folder} cannot be read ({error.strerror}): check it") from None
    for path in found:
        if path.suffix in (".yml", ".YAML", ".YML"):
            raise Refused(f"{path} is not read: name it {path.stem}{SUFFIX}")
        if path.suffix != SUFFIX:
            continue
        check_inside(directory, path, f"{path}")
        document = read_yaml(path, str(path))
        match document.content:
            case dict() as fields if field in fields:
                named = name_of(field, fields[field])
            case dict():
                raise document.refused(f"the field {field} is missing: write {field}: {path.stem}")
            case _:
                raise document.refused(f"this is no contract: begin with {field}: {path.stem}")
        if named.name != path.stem:
            raise named.at.refused(
                f"is {named.name}, but the file is {path.name}: make them the same"
            )
        yield document, named


def check_folder(directory: Path) -> None:
    """Refuse a folder that is none, or that holds no participants."""
    if not directory.is_dir():
        raise Refused(f"there is no folder {directory}: name the contracts with --contracts DIR")
    if not (directory / "participants").is_dir():
        owners = sorted(path.parent.name for path in directory.glob("*/participants"))[:OWNERS_MAX]
        hint = f"write {directory}/participants/NAME{SUFFIX}"
        if owners:
            hint = f"name the folder of one owner ({', '.join(owners)})"
        raise Refused(f"{directory} has no folder participants: {hint}")


def check_inside(directory: Path, path: Path, says: str) -> Path:
    """The path, resolved; Refused, beginning with `says`, if it is outside the folder."""
    try:
        resolved, root = path.resolve(), directory.resolve()
    except (OSError, RuntimeError) as error:
        raise Refused(f"{says} cannot be followed ({error}): check its links") from None
    if not resolved.is_relative_to(root):
        raise Refused(
            f"{says} leads out of {directory}: only an absolute path may name a file elsewhere"
        )
    return resolved
