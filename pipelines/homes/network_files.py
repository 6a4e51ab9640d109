"""Deployed networks: from the plan in the catalog to a network that can run.

A plan's document holds every box, so a network of expressions needs nothing else. The source of a
Function, or of an aggregate function of the user's own, is stored there as text, to be compared and
not run: such a network is loaded from the copy of its file that `medusa apply` kept under the
plan's fingerprint, so that the user's own file may change, and an older plan still computes its
remaining buckets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import PlanId
from medusa_core.network import Aggregate, Network
from medusa_core.plans import has_function_sources, network_document, network_of_document
from pipelines.base.files import write_atomically
from pipelines.language.load import function_sources, load_network

KEPT = "networks"


def kept_file(directory: Path, plan: PlanId) -> Path:
    """Where the network file of a plan is kept; `directory` is MEDUSA_DIR."""
    return directory / KEPT / f"{plan}.py"


def keep_file(directory: Path, plan: PlanId, file: Path) -> None:
    """Keep a copy of a plan's network file, durably; one that is there already stays."""
    kept = kept_file(directory, plan)
    try:
        content = file.read_bytes()
        if kept.exists() and kept.read_bytes() == content:
            return
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, content)
    except OSError as error:
        raise Unavailable(
            f"{file} cannot be kept as {kept} ({error.strerror}): make room or check the rights"
        ) from error


def network_of_plan(document: Mapping[str, Any], directory: Path) -> Network:
    """The network of a plan's document, ready to run; `directory` is MEDUSA_DIR.

    Raises Refused if it calls functions of its file, and the kept file is gone or differs.
    """
    name = document["network"]["name"]
    if not has_function_sources(document):
        return network_of_document(document["network"])
    kept = kept_file(directory, _plan_id(document))
    if not kept.is_file():
        raise Refused(
            f"network {name} calls functions of its file and {kept} is gone: restore it, or bring "
            "it in again with medusa apply"
        )
    network = _with_offsets_of(load_network(str(kept)), document)
    is_same = json.loads(json.dumps(network_document(network))) == document["network"]
    if not is_same or function_sources(network) != document["function_sources"]:
        raise Refused(
            f"{kept} is not the network {name} that was deployed: restore it, or bring it in again "
            "with medusa apply"
        )
    return network


def _with_offsets_of(network: Network, document: Mapping[str, Any]) -> Network:
    """The network with the offsets of zones that a plan has, whatever the database has now."""
    offsets = {box["name"]: box.get("zone_offsets") for box in document["network"]["boxes"]}
    boxes = tuple(
        replace(box, zone_offsets=offsets.get(box.name)) if isinstance(box, Aggregate) else box
        for box in network.boxes
    )
    return replace(network, boxes=boxes)


def _plan_id(document: Mapping[str, Any]) -> PlanId:
    """The fingerprint of a plan from its document, as `Plan.id` takes it."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return PlanId(sha256(text.encode()).hexdigest()[:32])
