"""Declarations of live sources are read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.sources.live.source_declaration import (
    LiveGenerator,
    PacedReplay,
    Timing,
    WatchedDirectory,
    parse_declaration,
)
from pipelines.storage.file_limits import UNPACKED_RATIO_MAX
from tests.sources.live.building import STREAM, Landing, S


def test_a_directory_may_say_all_there_is_of_its_time() -> None:
    declared = parse_declaration(
        STREAM,
        {
            "kind": "directory",
            "path": "/data/in",
            "format": "csv",
            "time": "ts_us",
            "disorder": "60s",
            "idle_after": "30s",
            "max_skew": "5s",
            "max_jump": "1h",
            "wall_time": True,
        },
    )
    assert declared == WatchedDirectory(
        path=Path("/data/in"),
        format="csv",
        timing=Timing(
            time="ts_us",
            disorder_us=60 * S,
            idle_after_us=30 * S,
            max_skew_us=5 * S,
            max_jump_us=3_600 * S,
            wall_time=True,
        ),
    )


def test_a_directory_needs_no_more_than_its_path() -> None:
    declared = parse_declaration(STREAM, '{"kind": "directory", "path": "in", "format": null}')
    assert declared == WatchedDirectory(path=Path("in"), format=None, timing=Timing())


def test_a_replay_names_its_files_and_its_speed() -> None:
    declared = parse_declaration(
        STREAM, {"kind": "replay", "paths": ["a.csv", "b.csv"], "speed": 10, "disorder": "0s"}
    )
    assert declared == PacedReplay(
        paths=(Path("a.csv"), Path("b.csv")), speed=10.0, timing=Timing(disorder_us=0)
    )


def test_the_generator_lives_in_the_time_of_the_clock() -> None:
    declared = parse_declaration(STREAM, {"kind": "generate", "seed": 1, "rate_per_s": 100})
    assert declared == LiveGenerator(
        seed=1, rate_per_s=100, sources=2_000, records=None, timing=Timing(wall_time=True)
    )


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "no JSON"),
        ("[]", "a mapping"),
        ({}, "kind None: write one of directory, replay, generate"),
        ({"kind": ["directory"]}, "write one of directory"),
        ({"kind": "directory"}, "path None: write a path"),
        ({"kind": "directory", "path": 7}, "path 7"),
        ({"kind": "directory", "path": ""}, "path ''"),
        ({"kind": "directory", "path": "a\0b"}, "a path"),
        ({"kind": "directory", "path": "in", "format": "orc"}, "format 'orc': write csv, json"),
        ({"kind": "directory", "path": "in", "files_per_poll": 0}, "files_per_poll 0"),
        ({"kind": "directory", "path": "in", "records_per_s": 1.5}, "records_per_s 1.5"),
        (
            {"kind": "directory", "path": "in", "unpacked_ratio_max": 0},
            "unpacked_ratio_max 0: write a whole number",
        ),
        ("[" * 100_000, "nested too deeply"),
        ({"kind": "directory", "path": "in", "disordr": "1s"}, "did you mean 'disorder'"),
        ({"kind": "directory", "path": "in", "zzz": 1}, "'zzz' that is not known: write kind"),
        ({"kind": "directory", "path": "in", "disorder": "soon"}, "disorder 'soon': write a dura"),
        ({"kind": "directory", "path": "in", "disorder": 1.5}, "disorder 1.5"),
        ({"kind": "directory", "path": "in", "disorder": False}, "disorder False"),
        ({"kind": "directory", "path": "in", "disorder": "-1s"}, "disorder '-1s'"),
        ({"kind": "directory", "path": "in", "max_jump": "0s"}, "max_jump '0s'"),
        ({"kind": "directory", "path": "in", "max_skew": "400d"}, "at most 366 days"),
        ({"kind": "directory", "path": "in", "wall_time": "yes"}, "write true or false"),
        ({"kind": "directory", "path": "in", "time": 3}, "time 3: write a text"),
        ({"kind": "replay", "paths": []}, r"paths \[\]: write a list"),
        ({"kind": "replay", "paths": "a.csv"}, "paths 'a.csv'"),
        ({"kind": "replay", "paths": [1]}, "paths 1: write a path"),
        ({"kind": "replay", "paths": ["a"], "speed": 0}, "speed 0"),
        ({"kind": "replay", "paths": ["a"], "speed": True}, "speed True"),
        ({"kind": "replay", "paths": ["a"], "speed": float("inf")}, "speed inf"),
        ({"kind": "replay", "paths": ["a"], "wall_time": True}, "wall_time"),
        ({"kind": "generate", "seed": -1}, "seed -1: write a whole number from 0"),
        ({"kind": "generate", "rate_per_s": 0.5}, "rate_per_s 0.5"),
        ({"kind": "generate", "sources": 10**9}, "sources 1000000000"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_stream_and_the_field(
    document: dict[str, object] | str, words: str
) -> None:
    with pytest.raises(Refused, match=words) as refused:
        parse_declaration(STREAM, document)
    assert f"the source of {STREAM}" in str(refused.value)


def test_a_declaration_that_contradicts_the_network_is_refused(landing: Landing) -> None:
    with pytest.raises(Refused, match="'at', but the network says 'ts_us'"):
        landing.watch(time="at")


def test_a_folder_that_is_not_there_is_refused(landing: Landing) -> None:
    landing.inbox.rmdir()
    with pytest.raises(Refused, match="which is no folder"):
        landing.watch()


@pytest.mark.parametrize("path", ["storage/landed", "."])
def test_the_storage_of_the_home_cannot_be_watched(landing: Landing, path: str) -> None:
    (landing.folder / "storage" / "landed").mkdir(parents=True)
    with pytest.raises(Refused, match="watch another folder"):
        landing.open(kind="directory", path=str(landing.folder / path))


def test_a_replay_of_a_file_that_is_not_there_is_refused(landing: Landing) -> None:
    with pytest.raises(Refused, match=r"gone\.csv cannot be replayed"):
        landing.open(kind="replay", paths=[str(landing.folder / "gone.csv")])


@pytest.mark.parametrize(
    "document", [{"kind": "directory", "path": "in"}, {"kind": "replay", "paths": ["day.csv"]}]
)
def test_how_much_a_file_may_unpack_to_is_declared_with_its_source(
    document: dict[str, object],
) -> None:
    plain = parse_declaration(STREAM, document)
    raised = parse_declaration(STREAM, document | {"unpacked_ratio_max": 5_000})
    assert isinstance(plain, WatchedDirectory | PacedReplay)
    assert isinstance(raised, WatchedDirectory | PacedReplay)
    assert plain.files.unpacked_ratio_max == UNPACKED_RATIO_MAX
    assert raised.files.unpacked_ratio_max == 5_000
