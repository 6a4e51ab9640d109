"""The workers of a home and the partitions that are placed at them, as facts for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipelines.catalog.worker_records import Placements, WorkerRecord


def worker_facts(catalog: Placements, assigned: Collection[str]) -> list[Mapping[str, Any]]:
    """Each worker that is alive or has partitions, by name, with its partitions in order.

    `assigned` are the fragments that are computed now: placements of others have no effect.
    """
    placed: dict[str, list[Mapping[str, Any]]] = {}
    workers = {worker.name: worker for worker in catalog.workers()}
    for one in catalog.placements():
        if one.fragment not in assigned:
            continue
        worker = workers.get(one.worker)
        fact = {
            "fragment": one.fragment,
            "is_held": worker is not None and one.holder == worker.holder,
            "placed_ms": one.placed_ms,
            "because": one.because,
        }
        placed.setdefault(one.worker, []).append(fact)
    names = sorted({name for name, worker in workers.items() if worker.is_alive} | placed.keys())
    return [_fact(workers.get(name), name, placed.get(name, [])) for name in names]


def _fact(
    worker: WorkerRecord | None, name: str, partitions: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    known = worker if worker is not None and worker.is_alive else None
    return {
        "worker": name,
        "is_alive": known is not None,
        "busy": None if known is None else known.busy,
        "pace": None if known is None else known.pace,
        "partitions": list(partitions),
    }
