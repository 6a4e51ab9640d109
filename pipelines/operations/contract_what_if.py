"""What an edit of a contract would have changed, by recorded load or by bills; only reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.homes.home import chosen_participant
from pipelines.market.contracts.bilateral import read_bilateral_file
from pipelines.market.what_if.analysis import WhatIf, ask_what_if
from pipelines.market.what_if.edits import parse_edit
from pipelines.market.what_if.repriced_bills import RepricedBills
from pipelines.participant.home_session import open_session

EDITS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRequest:
    """Edits of agreed contracts, and files as if they were agreed, over the last `over_ms`."""

    participant: str | None = None
    edits: Sequence[str] = ()
    files: Sequence[Path] = ()
    over_ms: int

    def check(self) -> None:
        """Refused unless there are 1 to 100 edits."""
        if not (self.edits or self.files):
            raise Refused(
                'say what would be changed: --edit "contract NAME SET price_high = 1.30", or --file'
            )
        if (count := len(self.edits) + len(self.files)) > EDITS_MAX:
            raise Refused(f"{count:,} edits: ask about {EDITS_MAX} at a time at most")


def what_if(settings: Settings, request: WhatIfRequest) -> WhatIf | RepricedBills:
    """Replay the recorded load, or price the stated periods, with and without the edits.

    Raises Refused for an invalid edit or file, Unavailable if the home cannot be reached.
    """
    request.check()
    parsed = [parse_edit(edit) for edit in request.edits]
    terms = [read_bilateral_file(path).terms for path in request.files]
    chosen = chosen_participant(settings, request.participant)
    with open_session(settings, chosen) as home_session:
        return ask_what_if(home_session.url, chosen, parsed, terms, request.over_ms)
