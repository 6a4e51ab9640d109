"""Files as objects: faults of the link, keys that nobody sees, copies that make room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, StreamName
from medusa_core.segments import SegmentFile
from pipelines.base.settings import Settings
from pipelines.homes.home import storage_of
from pipelines.operations.findings import State
from pipelines.operations.home_checks import bucket_findings
from pipelines.storage import object_store
from pipelines.storage.object_settings import SETTINGS, ObjectSettings, read_settings
from pipelines.storage.object_store import Bucket
from pipelines.storage.orphans import find_orphans, remove_orphans
from pipelines.storage.segment_files import (
    keep_files,
    new_attempt,
    read_checked,
    write_file,
)
from pipelines.storage.store import ORPHAN_SUFFIX, store_of
from tests.exchange.certificates import certificate_of
from tests.storage.object_server import (
    ACCESS,
    SECRET,
    Fault,
    ObjectServer,
    keys_file,
    keys_in_environment,
    object_server,
)

STREAM = StreamName("sums")
TABLE = pa.table({"number": pa.array(range(1_000), pa.int64())})
FOREVER_S = 2.0**40


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


class Rooted:
    """A root in a folder whose files are objects below a prefix of their own."""

    def __init__(self, server: ObjectServer, folder: Path, **options: object) -> None:
        self.root, self.prefix = folder / "root", uuid4().hex
        self.root.mkdir(parents=True)
        options = {"credentials": str(keys_file(folder / "keys")), **options}
        self.settings = server.settings(self.prefix, **options)
        self.settings.write(self.root)


@pytest.fixture
def rooted(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rooted:
    server.faults.clear()
    monkeypatch.setattr(object_store, "PAUSES_S", (0.01, 0.02, 0.03, 0.04))
    return Rooted(server, tmp_path)


@pytest.mark.parametrize("kind", ["slow-down", "lost"])
def test_a_put_that_fails_is_repeated_and_leaves_one_object(
    server: ObjectServer, rooted: Rooted, kind: str
) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    server.faults += [Fault("PUT", kind)] * 3
    keep_files(rooted.root, [file])
    assert list(server.objects(rooted.prefix)) == [file.path]
    assert not server.faults


@pytest.mark.parametrize("kind", ["slow-down", "cut", "lost"])
def test_a_read_that_fails_is_repeated(server: ObjectServer, rooted: Rooted, kind: str) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    keep_files(rooted.root, [file])
    (rooted.root / file.path).unlink()
    server.faults += [Fault("GET", kind)] * 3
    assert read_checked(rooted.root, file)
    assert not server.faults


def test_a_body_that_stops_in_the_middle_is_not_waited_for(
    server: ObjectServer, rooted: Rooted
) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    keep_files(rooted.root, [file])
    (rooted.root / file.path).unlink()
    server.faults.append(Fault("GET", "stall"))
    assert read_checked(rooted.root, file)


def test_a_large_file_is_read_in_ranges_and_only_the_broken_one_again(
    server: ObjectServer, rooted: Rooted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "PIECE_BYTES", 1_000)
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    keep_files(rooted.root, [file])
    (rooted.root / file.path).unlink()
    server.requests.clear()
    assert read_checked(rooted.root, file)
    pieces = -(-file.size_bytes // 1_000)
    assert [method for method, _ in server.requests].count("GET") == pieces > 1


def test_a_store_that_stays_away_is_unavailable_and_what_was_written_is_put_later(
    server: ObjectServer, rooted: Rooted
) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    server.faults += [Fault("PUT", "slow-down")] * 40
    with pytest.raises(Unavailable, match=r"does not serve .*SLOW_DOWN.*tried again"):
        keep_files(rooted.root, [file])
    server.faults.clear()
    keep_files(rooted.root, [file])
    assert list(server.objects(rooted.prefix)) == [file.path]


def test_no_attempt_is_begun_once_a_call_has_taken_its_time(
    server: ObjectServer, rooted: Rooted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "CALL_S", 0.0)
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    server.faults += [Fault("PUT", "slow-down")] * 10
    with pytest.raises(Unavailable):
        keep_files(rooted.root, [file])
    assert len(server.faults) == 8, "the client itself makes two requests"


def test_a_put_whose_answer_was_lost_leaves_an_orphan_and_no_lost_record(
    server: ObjectServer, rooted: Rooted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "YOUNG_S", -FOREVER_S)  # each object is old
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    server.faults += [Fault("PUT", "lost")] * 40
    with pytest.raises(Unavailable):
        keep_files(rooted.root, [file])
    server.faults.clear()
    (rooted.root / file.path).unlink()  # the attempt was given up
    found = find_orphans(rooted.root, lambda paths: frozenset(), FOREVER_S, 0)
    assert [o.path for o in found] == [file.path]
    assert remove_orphans(rooted.root, found, FOREVER_S, 0) == found
    assert list(server.objects(rooted.prefix)) == [file.path + ORPHAN_SUFFIX]
    marks = find_orphans(rooted.root, lambda paths: frozenset(), FOREVER_S, 0)
    remove_orphans(rooted.root, marks, FOREVER_S, 0)
    assert server.objects(rooted.prefix) == {}


def test_a_list_that_is_late_removes_nothing_that_is_young(
    server: ObjectServer, rooted: Rooted
) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    keep_files(rooted.root, [file])
    server.make_old(rooted.prefix, file.path, 10_000)
    store = store_of(rooted.root)
    before = dict(store.files())
    keep_files(rooted.root, [file], adopts=True)
    server.faults.append(Fault("GET", "late"))
    assert dict(store.files()) == before, "the list is that of an earlier moment"
    now_s = object_store.clock.wall_s()
    assert not store.remove_if_old(file.path, now_s - 3_600)
    assert file.path in server.objects(rooted.prefix)


def test_an_object_that_is_being_removed_is_not_adopted(
    server: ObjectServer, rooted: Rooted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal has looked at the old object, and removes it after the adoption has put it."""
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    keep_files(rooted.root, [file])
    server.make_old(rooted.prefix, file.path, 10_000)
    adopted: list[BaseException] = []

    def adopt_meanwhile(bucket: Bucket, path: str) -> bool:
        for _ in range(2):  # the second time, the object is young
            try:
                keep_files(rooted.root, [file], adopts=True)
            except Unavailable as error:
                adopted.append(error)
        return remove(bucket, path)

    remove = Bucket.remove
    monkeypatch.setattr(Bucket, "remove", adopt_meanwhile)
    now_s = object_store.clock.wall_s()
    assert store_of(rooted.root).remove_if_old(file.path, now_s - 3_600)
    assert [str(e).count("is being removed as an orphan") for e in adopted] == [1, 1]


def test_copies_make_room_and_what_was_not_put_stays(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = write_file(tmp_path / "size", STREAM, new_attempt(), TABLE).size_bytes * 8
    monkeypatch.setattr(object_store, "USED_S", 0.0)
    rooted = Rooted(server, tmp_path, cache_bytes=limit)
    unput = [write_file(rooted.root, STREAM, new_attempt(), TABLE) for _ in range(3)]
    files = []
    for _ in range(20):
        files.append(write_file(rooted.root, STREAM, new_attempt(), TABLE))
        keep_files(rooted.root, files[-1:])
        size = sum((rooted.root / file.path).stat().st_size for file in files if here(rooted, file))
        assert size <= limit
    assert all(here(rooted, file) for file in unput)
    assert all(read_checked(rooted.root, file) for file in files)


def here(rooted: Rooted, file: SegmentFile) -> bool:
    return (rooted.root / file.path).exists()


def test_short_processes_make_room_too_and_a_copy_that_was_just_used_stays(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooted = Rooted(server, tmp_path, cache_bytes=1)
    files = [write_file(rooted.root, STREAM, new_attempt(), TABLE) for _ in range(2)]
    Bucket(rooted.root, rooted.settings).keep(files[:1], adopts=False)
    assert here(rooted, files[0])
    monkeypatch.setattr(object_store, "USED_S", -1.0)
    Bucket(rooted.root, rooted.settings).keep(files[1:], adopts=False)
    assert not any(here(rooted, file) for file in files)


def test_a_large_file_is_whole_under_its_name_or_not_there(
    server: ObjectServer, rooted: Rooted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "CALL_S", 0.1)
    large = pa.table({"bytes": pa.array(os.urandom(1 << 20) for _ in range(25))})
    file = write_file(rooted.root, STREAM, new_attempt(), large)
    assert file.size_bytes > 2 * object_store.PIECE_BYTES
    server.faults += [Fault("PUT", "pass"), *[Fault("PUT", "slow-down")] * 80]
    with pytest.raises(Unavailable):
        keep_files(rooted.root, [file])
    server.faults.clear()
    assert file.path not in server.objects(rooted.prefix)
    keep_files(rooted.root, [file])
    (rooted.root / file.path).unlink()
    assert read_checked(rooted.root, file)


def test_a_copy_that_was_damaged_is_not_put_over_its_object(
    server: ObjectServer, rooted: Rooted
) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    keep_files(rooted.root, [file])
    server.make_old(rooted.prefix, file.path, 10_000)
    path = rooted.root / file.path
    path.chmod(0o644)
    path.write_bytes(b"")
    with pytest.raises(Unavailable, match="it has changed"):
        keep_files(rooted.root, [file])
    assert read_checked(rooted.root, file), "from its object"


def test_a_key_that_is_refused_while_a_process_runs_is_waited_out(
    server: ObjectServer, rooted: Rooted
) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    keys = Path(str(rooted.settings.credentials))
    keys.chmod(0o644)
    with pytest.raises(Unavailable, match="may be read by others"):
        keep_files(rooted.root, [file])
    assert not store_of(rooted.root).remove("sums/other.parquet")
    keys.chmod(0o600)
    keep_files(rooted.root, [file])


def test_keys_are_in_no_error_setting_or_repr(server: ObjectServer, rooted: Rooted) -> None:
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    server.faults += [Fault("PUT", "denied")] * 40
    with pytest.raises(Unavailable, match="ACCESS_DENIED") as failed:
        keep_files(rooted.root, [file])
    server.faults.clear()
    texts = [
        str(failed.value), repr(failed.value.__cause__), repr(rooted.settings),
        repr(rooted.settings.keys()), (rooted.root / SETTINGS).read_text(),
    ]  # fmt: skip
    assert not [t for t in texts if ACCESS in t or SECRET in t]


def test_a_file_of_keys_that_others_may_read_is_refused(rooted: Rooted) -> None:
    assert rooted.settings.credentials is not None
    os.chmod(rooted.settings.credentials, 0o640)
    with pytest.raises(Refused, match="may be read by others"):
        rooted.settings.keys()


def test_a_file_of_keys_that_is_none_is_not_repeated(tmp_path: Path) -> None:
    path = keys_file(tmp_path / "keys")
    path.write_text(f"{ACCESS}={SECRET}\n")
    with pytest.raises(Refused, match="is not a file of keys") as refused:
        ObjectSettings(address="s3://bucket", credentials=str(path)).keys()
    assert SECRET not in str(refused.value)


def test_keys_are_read_from_the_environment_if_no_file_is_named() -> None:
    settings = ObjectSettings(address="s3://bucket")
    with keys_in_environment():
        assert (settings.keys().access, settings.keys().secret) == (ACCESS, SECRET)
    with pytest.raises(Refused, match="there are no keys for s3://bucket"):
        settings.keys()


@pytest.mark.parametrize(
    "given",
    [
        {"address": "s3://"}, {"address": "s3://b"}, {"address": "s3://Bucket"},
        {"address": "s3://bucket/"}, {"address": "s3://bucket/a//b"},
        {"address": "s3://bucket/../a"}, {"address": "s3://key:secret@bucket"},
        {"address": "http://bucket"}, {"endpoint": "http://objects.example"},
        {"endpoint": "https://key:secret@objects.example"}, {"endpoint": "objects.example"},
        {"endpoint": "https://objects.example/path"}, {"region": "US EAST"},
        {"credentials": "keys"}, {"cache_bytes": 0},
    ],
)  # fmt: skip
def test_settings_that_are_not_valid_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(Refused, match=r"is not|is without TLS"):
        ObjectSettings(**{"address": "s3://bucket", **given})  # type: ignore[arg-type]


def test_settings_are_stored_in_the_folder_of_the_root(rooted: Rooted) -> None:
    assert read_settings(rooted.root) == rooted.settings
    assert read_settings(rooted.root / "elsewhere") is None
    (rooted.root / SETTINGS).write_text("{")
    with pytest.raises(Refused, match="cannot be read as Medusa wrote it"):
        read_settings(rooted.root)


def test_doctor_tries_the_bucket_of_a_home(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(Settings.from_environment({}), directory=tmp_path)
    alpha = Participant("alpha")
    assert list(bucket_findings(settings, alpha)) == [], "its files are in its folder"
    root = storage_of(tmp_path, alpha)
    root.mkdir(parents=True)
    keys = keys_file(tmp_path / "keys")
    server.settings("alpha", credentials=str(keys)).write(root)
    (found,) = bucket_findings(settings, alpha)
    assert (found.name, found.state) == ("object store of alpha", State.OK)
    keys.chmod(0o644)
    (found,) = bucket_findings(settings, alpha)
    assert found.state is State.FAIL
    assert "may be read by others" in str(found)
    assert SECRET not in str(found)


def test_a_bucket_is_tried_by_putting_reading_and_removing(
    server: ObjectServer, rooted: Rooted
) -> None:
    Bucket(rooted.root, rooted.settings).check()
    assert server.objects(rooted.prefix) == {}
    missing = ObjectSettings(
        address="s3://nowhere", endpoint=rooted.settings.endpoint,
        credentials=rooted.settings.credentials,
    )  # fmt: skip
    with pytest.raises(Unavailable, match="NO_SUCH_BUCKET"):
        Bucket(rooted.root, missing).check()


def test_a_server_is_certified_by_the_authorities_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "CALL_S", 0.0)
    certificate = certificate_of(tmp_path / "objects.pem", "127.0.0.1")
    with object_server(certificate) as server:
        trusting = Rooted(server, tmp_path / "trusting", ca_file=str(certificate))
        file = write_file(trusting.root, STREAM, new_attempt(), TABLE)
        keep_files(trusting.root, [file])
        assert file.path in server.objects(trusting.prefix)
        by_public_ones = Rooted(server, tmp_path / "by_public_ones")
        file = write_file(by_public_ones.root, STREAM, new_attempt(), TABLE)
        with pytest.raises(Unavailable, match="object store"):
            keep_files(by_public_ones.root, [file])
        assert server.objects(by_public_ones.prefix) == {}


def test_a_file_of_authorities_that_is_missing_is_named(
    server: ObjectServer, tmp_path: Path
) -> None:
    missing = tmp_path / "missing.pem"
    rooted = Rooted(server, tmp_path, ca_file=str(missing))
    file = write_file(rooted.root, STREAM, new_attempt(), TABLE)
    with pytest.raises(Unavailable, match=f"{missing} cannot be read.*mend storage_ca_file"):
        keep_files(rooted.root, [file])
