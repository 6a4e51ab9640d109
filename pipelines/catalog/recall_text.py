"""The message of a home about a partner's recall that it has not followed yet."""

from __future__ import annotations

from medusa_core.exchange import LineNews
from pipelines.base.time_text import iso


def recall_sentence(news: LineNews) -> str | None:
    """Why news is not brought in before an operator agrees, and how; None if it tells of no recall.

    What the partner gave as its reason is text of its own, checked to be one short line.
    """
    from_us = news.begins_again_us
    if from_us is None:
        return None
    partner, last = news.producer.participant, news.recalls[-1]
    return (
        f"partner {partner} recalled {news.stream} from {iso(from_us)} on (generation "
        f"{last.generation}: {last.because}); what was read up to there stays; "
        f"`medusa recall {news.stream} --from {iso(from_us)} --follow {partner}` goes on"
    )
