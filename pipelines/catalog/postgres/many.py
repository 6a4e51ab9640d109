"""Requests that are many in one: as the catalog's functions take them, and their answers.

The answer to each is its own: a value, or the error that the database refuses it with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from medusa_core.commits import Commit, CommitResult, LandedBatch, Lease, LeaseKey, SourcePromise
from medusa_core.errors import MedusaError, Refused
from medusa_core.names import Epoch
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.database_errors import error_of_answer


def lease_fields(lease: Lease) -> dict[str, Any]:
    """A lease as the functions' arguments."""
    return {**rows.key_fields(lease.key), "epoch": lease.epoch, "holder": lease.holder}


def leases_document(leases: Sequence[Lease]) -> str:
    """What medusa.renew_leases and medusa.release_leases take."""
    return json.dumps([lease_fields(lease) for lease in leases])


def lease_requests_document(requests: Sequence[tuple[LeaseKey, Epoch]]) -> str:
    """What medusa.acquire_leases takes."""
    return json.dumps([{**rows.key_fields(key), "epoch": epoch} for key, epoch in requests])


def landing_document_of_many(landed: Sequence[tuple[Lease, LandedBatch]]) -> str:
    """What medusa.land_many takes; Refused if the batches name more than one file."""
    files = {(batch.file, batch.file_of or batch.stream) for _, batch in landed if batch.file}
    if len(files) > 1:
        raise Refused("batches that land together are in one file: write one")
    file, file_of = next(iter(files), (None, None))
    batches = [rows.batch_fields(lease_fields(lease), batch) for lease, batch in landed]
    return json.dumps(
        {
            "batches": batches,
            "file": rows.files_document((file,))[0] if file else None,
            "file_of": file_of,
        }
    )


def promises_document(promises: Sequence[SourcePromise]) -> str:
    """What medusa.promise_many takes."""
    return json.dumps(
        [
            {
                **lease_fields(promise.lease),
                "stream": promise.stream,
                "origin_us": promise.origin_us,
                "boundary_us": promise.boundary_us,
                "end_us": promise.end_us,
            }
            for promise in promises
        ]
    )


def commits_document(commits: Sequence[Commit]) -> str:
    """What medusa.commit_steps takes."""
    return f"[{','.join(rows.commit_document(commit) for commit in commits)}]"


def committed_of(answer: Mapping[str, Any]) -> CommitResult | MedusaError:
    """One answer of medusa.commit_steps."""
    if "sqlstate" in answer:
        return refusal_of(answer)
    return CommitResult(
        versions=answer["versions"],
        committed_at_ms=answer["committed_at_ms"],
        again=answer["again"],
    )


def renewed_of(lease: Lease, answer: int | Mapping[str, Any]) -> Lease | MedusaError:
    """One answer of medusa.renew_leases."""
    if isinstance(answer, int):
        return Lease(key=lease.key, epoch=lease.epoch, holder=lease.holder, expires_at_ms=answer)
    return refusal_of(answer)


def refusal_of(answer: Mapping[str, Any]) -> MedusaError:
    """The error that a request was answered with."""
    return error_of_answer(answer["sqlstate"], answer["message"])
