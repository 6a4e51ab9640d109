"""The message of a home about a partner's recall or revision that it has not followed yet."""

from __future__ import annotations

import re
from typing import NamedTuple

from medusa_core.exchange import LineNews
from medusa_core.suggest import counted
from pipelines.base.time_text import iso


class NamedRecall(NamedTuple):
    """A partner's recall, as its sentence names it."""

    partner: str
    stream: str
    from_time: str


_SENTENCE = re.compile(r"partner (\w+) recalled ([\w/]+) from (\S+) on \(")


def recall_in(sentence: str) -> NamedRecall | None:
    """The recall that a sentence of `recall_sentence` is about; None for any other sentence."""
    found = _SENTENCE.search(sentence)
    return None if found is None else NamedRecall(*found.groups())


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


def revision_sentence(news: LineNews) -> str | None:
    """Why a revision is not brought in before an operator agrees, and how; None for other news."""
    revision = news.revision
    if revision is None or not news.replaced:
        return None
    partner, later = news.producer.participant, revision.last_generation > revision.generation
    return (
        f"partner {partner} revised {news.stream} in {counted(len(revision.ranges), 'range')} from "
        f"{iso(revision.ranges[0].from_us)} on (generation {revision.generation}"
        f"{f' of {revision.last_generation}' if later else ''}: {revision.because}); nothing is "
        f"imported before `medusa revise {news.stream} --follow {partner}` agrees, or the stream's "
        "contract says on_revision: follow"
    )
