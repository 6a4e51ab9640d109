"""Orphans go, and nothing else: nothing named or young, and nothing outside of the root."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from medusa_core.errors import Unavailable
from pipelines.storage.orphans import Orphan, find_orphans, remove_orphans
from pipelines.storage.store import ORPHAN_SUFFIX, remove_file
from tests.trimming.building import SUMS, Store

NOW_S, GRACE_S = 1_000_000.0, 3_600.0
OLD_S, YOUNG_S = NOW_S - GRACE_S, NOW_S - GRACE_S + 1


def a_file(path: Path, at_s: float = OLD_S) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")
    os.utime(path, (at_s, at_s))
    return path


def nothing(paths: Collection[str]) -> frozenset[str]:
    return frozenset()


def found_in(root: Path, known: Collection[str] = ()) -> list[str]:
    named = frozenset(known)
    return [o.path for o in find_orphans(root, named.intersection, NOW_S, GRACE_S)]


def removed_in(root: Path) -> list[str]:
    orphans = find_orphans(root, nothing, NOW_S, GRACE_S)
    return [o.path for o in remove_orphans(root, orphans, NOW_S, GRACE_S)]


def test_old_files_that_nothing_names_are_orphans(tmp_path: Path) -> None:
    a_file(tmp_path / "sums" / "old.parquet")
    a_file(tmp_path / "sums" / "landed" / "half.parquet.part")
    a_file(tmp_path / "sums" / "young.parquet", YOUNG_S)
    a_file(tmp_path / "imported" / "beta" / "sums" / "kept.parquet")
    a_file(tmp_path / "sums" / "notes.txt")
    known = ["imported/beta/sums/kept.parquet"]
    assert found_in(tmp_path, known) == ["sums/landed/half.parquet.part", "sums/old.parquet"]


def test_removed_are_the_orphans_alone(tmp_path: Path) -> None:
    old = a_file(tmp_path / "sums" / "old.parquet")
    young = a_file(tmp_path / "sums" / "young.parquet", YOUNG_S)
    other = a_file(tmp_path / "sums" / "notes.txt")
    assert removed_in(tmp_path) == ["sums/old.parquet"]
    assert not old.exists()
    assert sorted(tmp_path.rglob("*.*")) == sorted([young, other])


def test_links_are_neither_followed_nor_removed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    kept = a_file(outside / "theirs.parquet")
    root.mkdir()
    (root / "linked").symlink_to(outside)
    (root / "linked.parquet").symlink_to(kept)
    assert removed_in(root) == []
    orphans = (Orphan("linked/theirs.parquet", 4), Orphan("../outside/theirs.parquet", 4))
    assert remove_orphans(root, orphans, NOW_S, GRACE_S) == ()
    assert kept.read_bytes() == b"rows"
    assert (root / "linked.parquet").is_symlink()


@pytest.mark.parametrize("path", ["../outside.parquet", "linked/theirs.parquet", "", "a/../../b"])
def test_no_path_leads_out_of_the_root(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    a_file(tmp_path / "outside.parquet")
    a_file(tmp_path / "b")
    theirs = a_file(tmp_path / "outside" / "theirs.parquet")
    (root / "a").mkdir()
    (root / "linked").symlink_to(theirs.parent)
    before = sorted(tmp_path.rglob("*"))
    assert not remove_file(root, path)
    assert not remove_file(root, str(theirs))
    assert sorted(tmp_path.rglob("*")) == before


def test_an_old_file_that_is_adopted_meanwhile_is_restored(tmp_path: Path) -> None:
    adopted = a_file(tmp_path / "imported" / "copy.parquet")
    orphans = find_orphans(tmp_path, nothing, NOW_S, GRACE_S)
    os.utime(adopted, (NOW_S, NOW_S))
    assert remove_orphans(tmp_path, orphans, NOW_S, GRACE_S) == ()
    assert adopted.read_bytes() == b"rows"


def test_a_file_that_a_crash_left_renamed_is_removed_or_restored(tmp_path: Path) -> None:
    a_file(tmp_path / f"one.parquet{ORPHAN_SUFFIX}")
    a_file(tmp_path / f"two.parquet{ORPHAN_SUFFIX}")
    assert found_in(tmp_path, ["two.parquet"]) == [f"one.parquet{ORPHAN_SUFFIX}"]
    assert (tmp_path / "two.parquet").read_bytes() == b"rows"
    assert removed_in(tmp_path) == [f"one.parquet{ORPHAN_SUFFIX}", "two.parquet"]


def test_an_unreadable_root_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        find_orphans(tmp_path / "nowhere", nothing, NOW_S, GRACE_S)


def test_the_command_removes_what_no_commit_names(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = store.write(SUMS, 0, 2)
    os.utime(store.root / file.path, (0, 0))
    given_up = a_file(store.root / SUMS / "given-up.parquet", 0)
    young = store.root / SUMS / "young.parquet"
    young.write_bytes(b"still written")
    asked = store.document(monkeypatch, capsys, "trim", "--orphans", "--explain")
    assert given_up.exists()
    done = store.document(monkeypatch, capsys, "trim", "--orphans")
    assert asked["orphans"] == done["orphans"] == [
        {"path": f"{SUMS}/given-up.parquet", "size_bytes": 4}
    ]  # fmt: skip
    assert not given_up.exists()
    assert young.exists()
    assert len(store.rows(SUMS)) == 6
    os.utime(young, (1, 1))
    assert store.command(monkeypatch, "trim", "--orphans", "--grace", "1m") == 0
    assert "1 orphan of 13 B removed" in capsys.readouterr().out
