"""A round of the market of one participant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medusa_core.commits import Lane
from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.cli.round import run_round
from pipelines.market.sync.signing_keys import load_key
from pipelines.operations.job_supervision import lane_is_held
from pipelines.operations.printed_documents import told_by


def trade(
    settings: Settings, participant: Participant, *, explain: bool, only_idle: bool
) -> Mapping[str, Any]:
    """Open a round now; who runs opens rounds of its own, and is left to it with `only_idle`.

    Raises Refused if others may read its key, Unavailable if its home is away.
    """
    if only_idle and lane_is_held(settings, participant, Lane.LIVE):
        return {"participant": participant, "is_left": True, "because": "it runs"}
    try:
        load_key(settings.directory, participant)
    except Unavailable:
        # A home that no contract was applied to has none, and nobody to trade with.
        return {"participant": participant, "is_left": True, "because": "it has no key"}
    document = told_by(run_round, settings, participant, explain=explain, as_json=True)
    return dict(document)
