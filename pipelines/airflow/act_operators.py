"""The operators of acts that a person triggers: recall, revise, move, pause.

Each carries out what the command of its name does. Its log begins with what was done and what
follows; the home records who triggered the run. A run that is tried again acts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.airflow.medusa_operator import MedusaOperator, who

if TYPE_CHECKING:
    from airflow.sdk import Context

    from medusa_core.recalls import RecallResult
    from pipelines.base.settings import Settings
    from pipelines.operations.revision_following import RevisionFollowRequest
    from pipelines.operations.stream_revision import StreamRevisionRequest

AGAIN = "a dry run: trigger it again with Dry run off to do this"


class ActOperator(MedusaOperator):
    """An act on a stream: shown where its form asks for a dry run, otherwise done."""

    page = "streams"

    def say_made(self, made: RecallResult) -> Mapping[str, Any]:
        """Log that this run has acted already."""
        self.say(
            f"this run has done it: generation {made.generation} of {made.stream}, version "
            f"{made.version}; nothing is done twice"
        )
        self.say_pages()
        return {"is_done": True, "generation": made.generation}

    def say_act(self, sentences: list[str], table: str, *, is_done: bool) -> None:
        """Log what was done, or would be, and what follows."""
        self.say(*([] if is_done else [AGAIN]), *sentences, *table.splitlines())
        self.say_pages()


class RecallOperator(ActOperator):
    """Takes back final rows of a stream, with all that was computed from them."""

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.act_forms import made_before, recall_request
        from pipelines.operations.recall_report import document, outcome, plan_table
        from pipelines.operations.stream_recall import prepare_recall

        form, actor = context["params"], who(context)
        request = recall_request(settings, form, actor)
        self.lead_to("streams", home=request.participant, stream=request.stream)
        made = made_before(settings, request.participant, request.stream, actor)
        if made is not None:
            return self.say_made(made)
        with prepare_recall(settings, request) as prepared:
            result = prepared.plan if form["dry_run"] else prepared.carry_out()
        self.say_act(outcome(result), plan_table(result), is_done=result.is_done)
        return {"is_done": result.is_done, **document(result)}


class ReviseOperator(ActOperator):
    """Adds, removes or replaces final records of a source; or follows a partner's revisions."""

    def act(self, settings: Settings, context: Context) -> Mapping[str, Any]:
        from pipelines.operations.act_forms import made_before, revision_request
        from pipelines.operations.stream_revision import StreamRevisionRequest

        form, actor = context["params"], who(context)
        with revision_request(settings, form, actor) as request:
            self.lead_to("streams", home=request.participant, stream=request.stream)
            made = made_before(settings, request.participant, request.stream, actor)
            if made is not None:
                return self.say_made(made)
            if isinstance(request, StreamRevisionRequest):
                return self._revise(settings, request, is_dry=form["dry_run"])
            return self._follow(settings, request, is_dry=form["dry_run"])

    def _revise(
        self, settings: Settings, request: StreamRevisionRequest, *, is_dry: bool
    ) -> Mapping[str, Any]:
        from pipelines.operations.revision_report import document, outcome, plan_table
        from pipelines.operations.stream_revision import prepare_revision

        with prepare_revision(settings, request) as prepared:
            result = prepared.plan if is_dry else prepared.carry_out()
        self.say_act([outcome(result)], plan_table(result), is_done=not is_dry)
        return {"is_done": not is_dry, **document(result)}

    def _follow(
        self, settings: Settings, request: RevisionFollowRequest, *, is_dry: bool
    ) -> Mapping[str, Any]:
        from pipelines.operations.revision_following import prepare_following
        from pipelines.operations.revision_report import (
            document_followed,
            followed_outcome,
            followed_table,
        )

        with prepare_following(settings, request) as prepared:
            result = prepared.plan if is_dry else prepared.carry_out()
        self.say_act([followed_outcome(result)], followed_table(result), is_done=result.is_done)
        return {"is_done": result.is_done, **document_followed(result)}


class MoveOperator(MedusaOperator):
    """Hands a fragment over to a partner, or ends its move."""

    page = "contracts"

    def act(self, settings: Settings, context: Context) -> str:
        from pipelines.operations.act_forms import move_by_form, move_mark

        actor = who(context)
        done = move_by_form(settings, context["params"], actor)
        self.say(
            done,
            f"the reason of what this run did begins with {move_mark(actor)!r}",
            "the participants carry it out while they run: the page lists the move",
        )
        self.say_pages()
        return done


class PauseOperator(MedusaOperator):
    """Records that jobs of participants shall not run, or shall run again."""

    def act(self, settings: Settings, context: Context) -> list[str]:
        from medusa_core.names import Participant
        from pipelines.operations.act_forms import pause_request
        from pipelines.operations.desired_jobs import desire_jobs

        request = pause_request(settings, context["params"], who(context))
        recorded = desire_jobs(settings, request)
        done = [
            request.sentence(name)
            if name in recorded
            else f"{name} ({request.lane.value}): this run has done it; nothing is done twice"
            for name in map(Participant, request.participants)
        ]
        self.say(*done, "medusa_supervise looks at once, or within 30 s")
        self.say_pages()
        return done
