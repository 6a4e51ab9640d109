"""Batches of small files: taken apart as they arrive, and refused as soon as they lie."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.protocol.file_batches import (
    FILES_MAX,
    HEAD_BYTES,
    BatchReader,
    batch_bytes,
    frame_head,
    read_files,
    write_files,
)
from tests.sweeps import examples

contents = st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=6, unique=True)


def hash_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def frame(content: bytes) -> bytes:
    return frame_head(hash_of(content), len(content)) + content


@pytest.mark.sweep
@settings(max_examples=examples(30, 300), deadline=None)
@given(contents, st.data())
def test_wherever_a_batch_is_cut_its_files_are_the_same(
    files: list[bytes], data: st.DataObject
) -> None:
    sent = b"".join(map(frame, files))
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=8).map(sorted))
    reader = BatchReader({hash_of(one): len(one) for one in files})
    found = []
    for first, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        found += list(reader.take(sent[first:end]))
    assert found == [(hash_of(one), one) for one in files]
    assert len(sent) == batch_bytes(map(len, files)), "what a reader takes at most"


@pytest.mark.parametrize(
    "head",
    [
        frame_head(hash_of(b"one"), 4),
        frame_head(hash_of(b"one"), 2**64 - 1),
        frame_head(hash_of(b"one"), 0),
        frame_head(hash_of(b"other"), 3),
        frame(b"one") + frame_head(hash_of(b"one"), 3),
    ],
    ids=["longer", "without end", "empty", "not requested", "twice"],
)
def test_a_batch_that_lies_is_refused_by_the_head_of_a_file(head: bytes) -> None:
    with pytest.raises(Refused, match="are expected: call the partner's operator"):
        list(BatchReader({hash_of(b"one"): 3}).take(head))


def test_half_a_head_is_waited_for() -> None:
    assert list(BatchReader({hash_of(b"one"): 3}).take(b"x" * (HEAD_BYTES - 1))) == []


def test_a_request_names_each_file_once_and_not_too_many() -> None:
    hashes = tuple(hash_of(bytes([n])) for n in range(FILES_MAX))
    assert read_files(write_files(hashes)) == hashes
    for wrong in ((*hashes, hash_of(b"more")), (hashes[0], hashes[0]), ("../x",)):
        with pytest.raises(Refused):
            read_files(write_files(wrong))
