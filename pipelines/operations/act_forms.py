"""Forms of acts on streams and participants: recall, revise, move, pause.

A form becomes the request of the command that does the same; what is missing is refused by the name
of its field. `who` names the run of the form: an act that this run has made already is found by it,
so that a task that is tried again does not act twice.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from medusa_core.commits import Lane
from medusa_core.errors import Refused
from medusa_core.market.moves import MoveState
from medusa_core.names import Participant, check_name, is_fragment_named
from medusa_core.recalls import BECAUSE_CHARACTERS_MAX, RecallResult, check_text
from pipelines.base.settings import Settings
from pipelines.homes.home import chosen_participant, open_home
from pipelines.operations import form_values
from pipelines.operations.desired_jobs import JobRequest
from pipelines.operations.fragment_moves import (
    BY_HAND,
    MoveRequest,
    begin_move,
    end_move,
    list_moves,
    moves_noted,
)
from pipelines.operations.revision_following import RevisionFollowRequest
from pipelines.operations.stream_recall import StreamRecallRequest
from pipelines.operations.stream_revision import StreamRevisionRequest
from pipelines.participant.revising import RevisionAction

FOLLOW = "follow"
REVISE_ACTIONS = (*(action.value for action in RevisionAction), FOLLOW)
TO, BACK = "to", "back"
PAUSE, RESUME = "pause", "resume"
REVISIONS = "revisions"
"""The folder of MEDUSA_DIR in which forms find files of records."""
RECORDS_CHARACTERS_MAX = 100_000
MARK_CHARACTERS = 16
MOVE_BECAUSE_CHARACTERS_MAX = 450
"""With the mark before it, no longer than the reason of a move may be."""

Form = Mapping[str, Any]


def home_of(settings: Settings, form: Form) -> Participant:
    """The participant of a form; the only one of the folder if none is named."""
    name = form_values.text_of("participant", form.get("participant"))
    if name is None:
        return chosen_participant(settings, None)
    return form_values.participant_of("participant", settings, name)


def _needed(form: Form, field: str, what: str) -> str:
    text = form_values.text_of(field, form.get(field))
    if text is None:
        raise Refused(f"{field} is empty: {what}")
    return text


def _because(form: Form, who_reads: str) -> str:
    text = _needed(form, "because", f"say why, in a sentence, for {who_reads}")
    return check_text("because", text, BECAUSE_CHARACTERS_MAX)


def _chosen(form: Form, field: str, options: tuple[str, ...]) -> str:
    text = form_values.text_of(field, form.get(field))
    if text not in options:
        raise Refused(f"{field} {text!r} is not a valid one: choose {', '.join(options)}")
    return text


# ---------------------------------------------------------------- recall and revise


def recall_request(settings: Settings, form: Form, who: str) -> StreamRecallRequest:
    """The recall of a form; `follow` names a partner whose recall is agreed to."""
    here = home_of(settings, form)
    stream = _needed(form, "stream", "name the stream that is recalled")
    from_us = form_values.time_of("from", form.get("from"))
    if from_us is None:
        raise Refused("from is empty: give the first bucket that is recalled, in ISO 8601")
    follow = form_values.text_of("follow", form.get("follow"))
    because = form_values.text_of("because", form.get("because"))
    if follow is None:
        because = _because(form, "those who read the stream")
    return StreamRecallRequest(
        participant=here, stream=stream, from_us=from_us, because=because, follow=follow, who=who
    )


def made_before(
    settings: Settings, participant: str | None, stream: str, who: str
) -> RecallResult | None:
    """The last recall or revision of a stream that the same run has made."""
    here = chosen_participant(settings, participant)
    with open_home(settings, here, as_owner=True) as home:
        made = [one for one in home.catalog.recalls() if one.who == who and one.stream == stream]
    return made[-1] if made else None


@contextmanager
def revision_request(
    settings: Settings, form: Form, who: str
) -> Iterator[StreamRevisionRequest | RevisionFollowRequest]:
    """The revision of a form. Its records are a file of MEDUSA_DIR/revisions, or written into the
    form: these are a file for as long as the block lasts."""
    here = home_of(settings, form)
    stream = _needed(form, "stream", "name the stream that is revised")
    action = _chosen(form, "action", REVISE_ACTIONS)
    if action == FOLLOW:
        follow = _needed(form, FOLLOW, "name the partner whose revisions are followed")
        yield RevisionFollowRequest(
            participant=here, stream=stream, follow=follow, who=who,
            because=form_values.text_of("because", form.get("because")),
        )  # fmt: skip
        return
    because = _because(form, "those who read the stream")
    with _records(settings, form) as file:
        yield StreamRevisionRequest(
            participant=here, stream=stream, action=RevisionAction(action), file=file,
            because=because, who=who,
        )  # fmt: skip


@contextmanager
def _records(settings: Settings, form: Form) -> Iterator[Path]:
    named = form_values.text_of("file", form.get("file"))
    written = form.get("records")
    if written is not None and not isinstance(written, str):
        raise Refused("records is not a text: write records as a file of the source has them")
    is_written = bool(written and written.strip())
    if (named is not None) == is_written:
        raise Refused("records or file: write the records, or name a file of them, not both")
    if named is not None:
        yield form_values.file_of("file", named, settings.directory / REVISIONS)
        return
    assert written is not None, "it is written, since no file is named"
    if len(written) > RECORDS_CHARACTERS_MAX:
        raise Refused(
            f"records has more than {RECORDS_CHARACTERS_MAX:,} characters: put them into a file of "
            f"{settings.directory / REVISIONS}, and name it under file"
        )
    with tempfile.TemporaryDirectory(prefix="medusa-records-") as folder:
        file = Path(folder) / "records"
        file.write_text(f"{written.rstrip()}\n", encoding="utf-8")
        try:
            yield file
        except Refused as refused:  # the file is nothing that the reader of the sentence has seen
            raise Refused(str(refused).replace(str(file), "records")) from None


# ---------------------------------------------------------------- move


def move_by_form(settings: Settings, form: Form, who: str) -> str:
    """Begin or end the move of a fragment; what was done, in a sentence.

    The reason of the move has a mark of the run, by which it is found even after others have moved
    the fragment: a run acts once. A fragment that is with the partner already is left alone.
    """
    here = home_of(settings, form)
    fragment = _needed(form, "fragment", "name the fragment that is moved")
    action = _chosen(form, "action", (TO, BACK))
    partner = form_values.text_of("partner", form.get("partner"))
    why = form_values.text_of("because", form.get("because"))
    if why is not None:
        check_text("because", why, MOVE_BECAUSE_CHARACTERS_MAX)
    if action == TO and partner is None:
        raise Refused("partner is empty: name the partner that is to compute it")
    if action == BACK and partner is not None:
        raise Refused("a fragment goes back to its payer: leave partner empty")
    marked = move_mark(who)
    made = moves_noted(settings, here, marked)
    if made:
        return f"move {made[0].number}: this run has acted on fragment {made[0].fragment} already"
    reason = f"{marked}: {why}" if why else marked
    if partner is None:
        return end_move(settings, here, fragment, reason).sentence
    return _hand_over(
        settings, MoveRequest(participant=here, fragment=fragment, to=partner, reason=reason)
    )


def move_mark(who: str) -> str:
    """How the reason of a move by form begins. The partner receives it: it names nobody, and tells
    the home which of its runs it was."""
    return f"{BY_HAND}, run {sha256(who.encode()).hexdigest()[:MARK_CHARACTERS]}"


def _hand_over(settings: Settings, request: MoveRequest) -> str:
    check_name("partner", request.to)
    for one in list_moves(settings, request.participant).moves:
        is_open = one.is_given and one.state is not MoveState.ENDED
        if is_open and one.partner == request.to and (
            is_fragment_named(one.fragment, request.fragment)
        ):  # fmt: skip
            return f"move {one.number}: fragment {one.fragment} is with {one.partner} already"
    return begin_move(settings, request).sentence


# ---------------------------------------------------------------- pause


def pause_request(settings: Settings, form: Form, who: str) -> JobRequest:
    """The jobs that a form stops or starts again; it names each participant."""
    action = _chosen(form, "action", (PAUSE, RESUME))
    lane = Lane(_chosen(form, "lane", tuple(lane.value for lane in Lane)))
    named = form.get("participants")
    if not named:
        raise Refused("participants is empty: name each participant that is meant")
    participants = form_values.participants_of("participants", settings, named)
    because = _because(form, "those who see that it is paused")
    return JobRequest(
        participants=tuple(participants),
        is_desired=action == RESUME,
        lane=lane,
        because=because,
        who=who,
        is_once=True,
    )
