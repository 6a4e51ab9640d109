"""Write a small project of the user's own: its README says how to run it.

All files are written, or none: a file that exists already is named and left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import check_name
from pipelines.language.load import SHIPPED
from pipelines.operations.example_samples import samples
from pipelines.operations.project_sample import sample_csv
from pipelines.report.next_steps import near

TEMPLATES = Path(__file__).with_name("templates")
PLACEHOLDER = "PROJECT_NAME"
SAMPLES = "contracts/samples"
SAMPLE = f"{SAMPLES}/requests.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project that was written: its files are paths below the folder.

    `inputs` are those of a replay, as it is told of them.
    """

    name: str
    folder: Path
    files: tuple[str, ...]
    inputs: tuple[str, ...]


def make_project(directory: Path | None, name: str | None, example: str | None = None) -> Project:
    """Write a project into a folder (None: the current one), named after it by default.

    `example`: one of `EXAMPLES`, None for the smallest project. Raises Refused for an invalid name
    and if one of the files exists, Unavailable if one cannot be written.
    """
    folder = (directory or Path()).expanduser().absolute()
    chosen = _checked(_name_of(folder) if name is None else name)
    files = project_files(chosen, example)
    write_project(folder, files)
    inputs = (SAMPLE,) if example is None else tuple(
        f"{source}={SAMPLES}/{source}.csv" for source in _sources(files)
    )  # fmt: skip
    return Project(name=chosen, folder=folder, files=tuple(files), inputs=inputs)


def project_files(name: str, example: str | None = None) -> Mapping[str, str]:
    """Path below the project's folder -> text, for a project of that name."""
    folder = TEMPLATES / (example or "project")
    files = {}
    for template in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        path = str(template.relative_to(folder)).replace(PLACEHOLDER, name)
        text = template.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
        files[".gitignore" if path == "gitignore" else path] = text
    if example is None:
        return files | {SAMPLE: sample_csv()}
    return files | {f"{SAMPLES}/{file}.csv": text for file, text in samples(example).items()}


def _sources(files: Mapping[str, str]) -> Sequence[str]:
    """The sources of a project: each has a file that says what feeds it."""
    return [Path(path).stem for path in files if path.startswith("contracts/streams/")]


def write_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files; Refused if one is there, Unavailable if one cannot be written.

    Whatever happens, either all of them are written or nothing is left of them.
    """
    for path in files:
        if (folder / path).exists() or (folder / path).is_symlink():
            raise Refused(
                f"{near(folder / path)} is there already: choose another folder, or move it away"
            )
    made: list[Path] = []
    try:
        for path, text in files.items():
            _make_folders((folder / path).parent, made)
            with (folder / path).open("x", encoding="utf-8") as file:
                made.append(folder / path)
                file.write(text)
    except BaseException as error:
        for thing in reversed(made):
            # A folder into which somebody else has put something meanwhile stays.
            with suppress(OSError):
                if thing.is_dir():
                    thing.rmdir()
                else:
                    thing.unlink()
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise Refused(
                f"{error.filename} is in the way: choose another folder, or move it away"
            ) from None
        if isinstance(error, OSError):
            raise Unavailable(
                f"{error.filename or folder} cannot be written ({error.strerror}): choose a folder "
                "of yours, with room"
            ) from None
        raise


def _make_folders(folder: Path, made: list[Path]) -> None:
    if folder.is_dir():
        return
    _make_folders(folder.parent, made)
    folder.mkdir()
    made.append(folder)


def _name_of(folder: Path) -> str:
    return re.sub(r"[^a-z0-9]+", "_", folder.name.lower()).strip("_")


def _checked(name: str) -> str:
    try:
        check_name("project", name)
    except Refused as error:
        raise Refused(f"{error}; say it with --name") from None
    if name in SHIPPED:
        raise Refused(f"{name} is a network that comes with Medusa: choose another with --name")
    return name
