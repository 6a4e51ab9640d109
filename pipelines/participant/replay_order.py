"""What to replay: a network, and the recorded files or the kept history that each source reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Network, Source
from medusa_core.suggest import did_you_mean
from pipelines.participant.kept_history import KeptHistory
from pipelines.sources.recorded.reader import check_named_once
from pipelines.storage.file_limits import FileLimits

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOrder:
    """What to replay: a network, bucket width, limits of steps and files, and what sources read.

    `inputs` are files by source, `histories` streams of a home; each source has one or the other.
    """

    network: Network
    inputs: Mapping[StreamName, tuple[Path, ...]]
    width_us: int
    limits: Limits = field(default_factory=Limits)
    chunk_records: int = 250_000
    file_limits: FileLimits = field(default_factory=FileLimits)
    histories: Mapping[StreamName, KeptHistory] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """The same for the same work, so that a kept folder is not gone on with by another."""
        files = {
            name: [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in paths]
            for name, paths in sorted(self.inputs.items())
        }
        read: list[object] = [files, self.width_us, self.chunk_records]
        if self.histories:
            read.append({name: its.fingerprint for name, its in sorted(self.histories.items())})
        text = json.dumps(read)
        return sha256(text.encode()).hexdigest()


def with_landed_sources(network: Network, histories: Collection[str] = ()) -> Network:
    """The network with sources that land in the place of streams of others that it reads.

    `histories` are the sources whose records come from a home, with their event time. Raises
    Refused for another source that does not name its column with event time.
    """
    landed: list[Source] = []
    for source in network.sources:
        if source.name in histories:
            # No column is parsed for event time; a source that lands has to name one.
            time = source.time or next(iter(source.columns))
            landed.append(replace(source, stream=None, time=time, key=()))
            continue
        if not source.is_landed and not source.time:
            raise Refused(
                f"source {source.name} of network {network.name} reads stream {source.stream}: "
                "to replay files in its place, name its column with event time as time"
            )
        landed.append(replace(source, stream=None))
    return replace(network, sources=tuple(landed))


def streams_of_network(
    network: Network, given: Sequence[str], option: str = "--stream", noun: str = "STREAM"
) -> dict[StreamName, str]:
    """Streams (or views) of a home by source, from `[SOURCE=]STREAM` words of an option.

    Raises Refused for an unknown source.
    """
    streams: dict[StreamName, str] = {}
    names = [source.name for source in network.sources]
    for word in given:
        name, sign, stream = word.partition("=")
        if not sign:
            name, stream = _only_source(network, option, f"SOURCE={noun}", word), word
        if name not in names:
            hint = did_you_mean(name, names, f"it has {', '.join(names)}")
            raise Refused(f"network {network.name} has no source {name!r}: {hint}")
        if streams.setdefault(StreamName(name), stream) != stream:
            raise Refused(
                f"source {name} of network {network.name} is given two {noun.lower()}s: give one"
            )
    return streams


def _only_source(network: Network, option: str, form: str, word: str) -> str:
    names = [source.name for source in network.sources]
    if len(names) > 1:
        raise Refused(
            f"{option} {word!r} does not say which source of {network.name} it is for: "
            f"write {form} with one of {', '.join(names)}"
        )
    return names[0]


def inputs_of_network(
    network: Network, given: Sequence[str], histories: Collection[str] = ()
) -> dict[StreamName, tuple[Path, ...]]:
    """Files by source, from `[STREAM=]FILE` words; Refused unless every source has one.

    Sources of `histories` read a stream instead.
    """
    files: dict[StreamName, list[Path]] = {StreamName(s.name): [] for s in network.sources}
    names = ", ".join(files)
    for word in given:
        name, sign, path = word.partition("=")
        if not sign or not name.isidentifier() or _is_there(Path(word)):
            name, path = _only_source(network, "--input", "STREAM=FILE", word), word
        if name not in files:
            hint = did_you_mean(name, files, f"it has {names}")
            raise Refused(f"network {network.name} has no source {name!r}: {hint}")
        if name in histories:
            raise Refused(
                f"source {name} of network {network.name} has a file and a stream: give one"
            )
        files[StreamName(name)].append(Path(path))
    for name in histories:
        del files[StreamName(name)]
    for source, paths in files.items():
        if not paths:
            raise Refused(
                f"source {source} of network {network.name} has no input: give --input "
                f"{source}=FILE, --stream {source}=STREAM or --view {source}=VIEW"
            )
        for file in paths:
            if not _is_there(file):
                raise Refused(f"input file {file} does not exist: give the path of a recorded file")
            if file.is_dir():
                raise Refused(f"input {file} is a folder: name the files inside it")
            if file.is_char_device() or file.is_block_device():
                raise Refused(f"input {file} is a device: give the path of a recorded file")
        check_named_once(paths)
    return {name: tuple(paths) for name, paths in files.items()}


def _is_there(path: Path) -> bool:
    """Whether the path can be looked at; one that is too long or closed to us is not there."""
    try:
        path.stat()
    except OSError:
        return False
    return True
