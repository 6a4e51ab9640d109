"""Branches: what a network would have said over kept history, kept under a label.

A branch is a replay whose home stays in `MEDUSA_DIR/branches/LABEL`, with versions of its own. It
reads the streams of a home and is never seen by readers of these: nothing of it is in the home.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.names import Participant, StreamName, check_name
from medusa_core.network import Network
from medusa_core.suggest import did_you_mean
from pipelines.base.files import write_atomically
from pipelines.base.foreign_documents import foreign_form, parse_json
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home
from pipelines.homes.home import SERVER, chosen_participant, known_homes, open_home
from pipelines.language.load import load_network
from pipelines.operations.branch_diff import StreamDiff, diff
from pipelines.operations.recorded_replay import SOLO, CheckedReplay, ReplayRequest, run_replay
from pipelines.participant.kept_history import ALL, KeptHistory, kept_history
from pipelines.quality.sample_check import reach_us

FOLDER = "branches"
FACTS = "branch.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch that was made: whose streams it reads, at which versions, in which event times.

    `streams`: source -> (stream, version, from, to). `compared`: output -> the event times in which
    its rows are those that the network would have given with all that came before: the windows of
    earlier ones begin before the branch does.
    """

    label: str
    participant: Participant
    network: str
    streams: Mapping[str, tuple[str, int, int, int]]
    compared: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRequest:
    """A branch to make: its label, and a replay over streams of a home."""

    label: str
    replay: ReplayRequest


def make_branch(
    settings: Settings, request: BranchRequest, progress: Callable[[str], None]
) -> CheckedReplay:
    """Replay and keep; interrupted, the same request continues.

    Raises Refused for a label that is taken, and what `run_replay` raises.
    """
    folder = _folder_of(settings, request.label)
    if (folder / FACTS).exists():
        raise Refused(
            f"there is a branch {request.label}: remove it with medusa branch remove, or choose "
            "another label"
        )
    if request.replay.inputs or not (request.replay.streams or request.replay.views):
        raise Refused("a branch reads streams of a home: give --stream or --view for every source")
    participant = chosen_participant(settings, request.replay.participant)
    network = load_network(request.replay.network)
    done = run_replay(settings, replace(request.replay, keep=folder / "home"), progress)
    facts = Branch(
        label=request.label,
        participant=participant,
        network=network.name,
        streams={
            name: (its.stream, its.version, its.range.from_us, its.range.to_us)
            for name, its in done.histories.items()
        },
        compared=_compared(network, done.histories),
    )
    write_atomically(folder / FACTS, json.dumps(asdict(facts)))
    return done


def _compared(
    network: Network, histories: Mapping[StreamName, KeptHistory]
) -> dict[str, tuple[int, int]]:
    to_us = min(history.range.to_us for history in histories.values())
    found: dict[str, tuple[int, int]] = {}
    for output in network.outputs:
        port = network.port(output.input, f"output {output.name}")
        begins_us = [
            history.range.from_us + reach
            for source, reach in reach_us(network, port).items()
            if not (history := histories[StreamName(source)]).is_from_origin
        ]
        found[output.name] = (max(begins_us, default=BEGINNING_US), to_us)
    return found


def list_branches(settings: Settings) -> tuple[Branch, ...]:
    """All branches of a folder, by label."""
    return tuple(map(_branch, sorted((settings.directory / FOLDER).glob(f"*/{FACTS}"))))


def diff_branch(settings: Settings, label: str) -> tuple[StreamDiff, ...]:
    """Each output of a branch against the stream of that name, as the home has it now.

    Raises Refused for an unknown branch, or if no output of it has the name of a stream.
    """
    branch = _known(settings, label)
    own = replace(settings, directory=_folder_of(settings, label) / "home")
    with open_home(settings, branch.participant) as home, open_home(own, SOLO) as kept:
        known = {line.stream.name for line in home.catalog.lines()}
        names = [name for name in branch.compared if name in known]
        if not names:
            raise Refused(
                f"no output of branch {label} ({', '.join(branch.compared)}) is a stream of "
                f"{branch.participant}: there is no original to compare it with"
            )
        return tuple(
            diff(
                name,
                kept_history(home, name, ALL, None),
                kept_history(kept, name, ALL, None),
                Range(*branch.compared[name]),
            )
            for name in names
        )


def remove_branch(settings: Settings, label: str) -> None:
    """Remove a branch with its home, also one that was made halfway; Refused if there is none."""
    folder = _folder_of(settings, label)
    if not folder.is_dir():
        _known(settings, label)
    own = replace(settings, directory=folder / "home")
    if settings.catalog_url is not None:
        for database in known_homes(own.directory).values():
            drop_home(settings.catalog_url_of("postgres") or "", database)
    if (own.directory / SERVER).exists():
        EmbeddedServer(own.directory / SERVER).discard()
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise Unavailable(
            f"{error.filename} cannot be removed ({error.strerror}): remove {folder}"
        ) from error


def _folder_of(settings: Settings, label: str) -> Path:
    return settings.directory / FOLDER / check_name("branch", label)


def _known(settings: Settings, label: str) -> Branch:
    """The branch; Refused, with the nearest, if there is none."""
    file = _folder_of(settings, label) / FACTS
    if not file.exists():
        names = [branch.label for branch in list_branches(settings)]
        hint = did_you_mean(label, names, f"there is {', '.join(names) or 'none'}")
        raise Refused(f"there is no branch {label!r}: {hint}")
    return _branch(file)


def _branch(file: Path) -> Branch:
    facts = parse_json(file.read_bytes(), str(file), "remove the branch and make it again")
    with foreign_form(str(file), "remove the branch and make it again"):
        return Branch(
            label=str(facts["label"]),
            participant=Participant(facts["participant"]),
            network=str(facts["network"]),
            streams={name: tuple(its) for name, its in facts["streams"].items()},
            compared={
                name: (int(begin), int(end)) for name, (begin, end) in facts["compared"].items()
            },
        )
