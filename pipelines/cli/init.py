"""`medusa init`: write a small project of the user's own."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.operations.example_samples import EXAMPLES

if TYPE_CHECKING:
    from pipelines.operations.project_files import Project

HELP = "write a small project that runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa init`."""
    folder = "a folder that has none of the files (default: this one); made if necessary"
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIR", help=folder)
    named = "the name of the network and the participant (default: the folder's)"
    parser.add_argument("--name", metavar="NAME", help=named)
    example = "a larger project: joined streams, a table to look up, SQL beside Python"
    parser.add_argument("--example", choices=EXAMPLES, help=example)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Write the files and print what to type next."""
    from pipelines.operations.project_files import make_project

    print(render(make_project(options.directory, options.name, options.example)))
    return 0


def render(project: Project) -> str:
    """The files, and the commands to type next."""
    from pipelines.report.next_steps import near

    folder = project.folder
    lines = ["written:", *(f"  {near(folder / path)}" for path in project.files), ""]
    lines += ["what to type next (README.md says more):", ""]
    if folder != Path.cwd():
        lines.append(f"  cd {shlex.quote(str(near(folder)))}")
    programs = shlex.quote(str(Path(sys.executable).parent))
    lines.append(f"  export PATH={programs}:$PATH")
    inputs = " ".join(f"--input {given}" for given in project.inputs)
    lines.append(f"  medusa replay contracts/networks/{project.name}.py {inputs}")
    return "\n".join(lines)
