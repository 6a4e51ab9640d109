"""The kinds of findings that ask for a person, and what mends each: a command, a DAG or SQL.

Every kind is a row of docs/alarms.md, too, whose section it names. One act mends a finding. Where
the cause is outside Medusa (a folder that is gone, a cut cable) `does` says what to restore, and
the act shows whether that has helped.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

Values = Mapping[str, Any]


class Level(Enum):
    """How bad a finding is: results are wrong, late or missing, or they may become so."""

    BAD = "bad"
    WARN = "warn"


class Means(Enum):
    """How something is mended."""

    COMMAND = "command"
    DAG = "DAG"
    SQL = "SQL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act with its values: a command line, a DAG and the values of its form, or a statement."""

    means: Means
    text: str
    form: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of finding. `row` is its first cell in docs/alarms.md, `view` shows it in SQL."""

    title: str
    level: Level
    does: str
    act: Callable[[Values], Act]
    docs: str
    row: str
    view: str = "jobs"
    mends: bool = True
    """Whether the act mends it; else it shows whether the cause is gone."""
    login: str = "the owner"
    """Who runs a statement."""


def command(*words: str) -> Callable[[Values], Act]:
    """A command line; words in braces are values, quoted for a shell."""

    def act(values: Values) -> Act:
        filled = [word.format_map(_Texts(values)) for word in words]
        return Act(means=Means.COMMAND, text=shlex.join(filled))

    return act


def dag(name: str, **form: str | list[str]) -> Callable[[Values], Act]:
    """A DAG with these values of its form."""

    def act(values: Values) -> Act:
        texts = _Texts(values)
        filled: dict[str, Any] = {
            field: [one.format_map(texts) for one in value]
            if isinstance(value, list)
            else value.format_map(texts)
            for field, value in form.items()
        }
        return Act(means=Means.DAG, text=name, form=filled)

    return act


def sql(statement: str) -> Callable[[Values], Act]:
    """A statement; words in braces are values, as literals."""

    def act(values: Values) -> Act:
        return Act(means=Means.SQL, text=statement.format_map(_Literals(values)))

    return act


class _Texts(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return name.upper()


class _Literals(dict[str, Any]):
    def __getitem__(self, name: str) -> str:
        if name == "api":
            return "medusa_api"
        value = str(self.get(name, name.upper()))
        # A backslash means itself in an ordinary literal of Postgres.
        return "'" + value.replace("'", "''") + "'"


KINDS: Mapping[str, Kind] = {
    # ------------------------------------------------------------ homes that cannot be read
    "lacks_migration": Kind(
        title="The home is older than the program", level=Level.BAD,
        does="Bring its tables, functions and grants up to date; its data stays.",
        act=command("medusa", "migrate", "--participant", "{home}"),
        docs="alarms#findings-of-medusa-doctor", row="migrations of NAME"),
    "login_missing": Kind(
        title="The page cannot log in to the home", level=Level.BAD,
        does="As the administrator, set the passwords of its logins again.",
        act=command("medusa", "migrate", "--participant", "{home}"),
        docs="alarms#machine-and-catalog", row="has no password"),
    "login_refused": Kind(
        title="The home does not accept the login of the page", level=Level.BAD,
        does="As the administrator, set the passwords of its logins again.",
        act=command("medusa", "migrate", "--participant", "{home}"),
        docs="alarms#machine-and-catalog", row="the catalog does not accept this login"),
    "secret_readable": Kind(
        title="Other users of the machine can read a password", level=Level.BAD,
        does="Let its owner alone read it; draw another one if somebody has.",
        act=command("chmod", "-R", "go-rwx", "{directory}/keys"),
        docs="alarms#partners-and-contracts", row="may be read by others (mode …)"),
    "no_connection_left": Kind(
        title="The home has no connection left", level=Level.BAD,
        does="End sessions that do nothing, or raise the limit.",
        act=sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle' AND "
                "(usename = current_database() || '_page' OR state_change < clock_timestamp() - "
                "interval '10 minutes')"), login="the administrator",
        docs="alarms#machine-and-catalog", row="the catalog has no connection left"),
    "home_is_newer": Kind(
        title="The home is newer than the program", level=Level.BAD,
        does="Install that version of Medusa, or restore a backup.",
        act=command("medusa", "doctor"), mends=False,
        docs="alarms#findings-of-medusa-doctor", row="migrations of NAME"),
    "catalog_away": Kind(
        title="The catalog cannot be reached", level=Level.BAD,
        does="Start Postgres: medusa up starts an embedded server. No data is lost; drivers "
             "continue by themselves.",
        act=command("medusa", "up"),
        docs="alarms#machine-and-catalog",
        row="the catalog cannot be reached, medusa_catalog_reachable 0"),
    "read_failed": Kind(
        title="A home cannot be read for the page", level=Level.BAD,
        does="Read the log of Airflow's API server, which has the error; the other pages of the "
             "home may still be shown.",
        act=command("medusa", "status", "--participant", "{home}"), mends=False,
        docs="alarms#machine-and-catalog", row="reading it failed with"),
    # ------------------------------------------------------------ the platform and the machine
    "platform_lost": Kind(
        title="The supervisor of medusa up was lost", level=Level.BAD,
        does="Start it again; what runs is taken over.",
        act=command("medusa", "up"), docs="alarms#medusa-up", row="its supervisor was lost"),
    "component_given_up": Kind(
        title="A component of Airflow was given up", level=Level.BAD,
        does="Read its log, correct the cause, then start all again.",
        act=lambda values: Act(means=Means.COMMAND, text="medusa down && medusa up"),
        docs="alarms#medusa-up", row="a component given up"),
    "disk_full": Kind(
        title="The disk of MEDUSA_DIR is nearly full", level=Level.BAD,
        does="Remove files that nothing names; then shorten retention, or add space.",
        act=command("medusa", "trim", "--orphans", "--participant", "{home}"),
        docs="alarms#findings-of-medusa-doctor", row="disk"),
    "notifications": Kind(
        title="The server's queue of notifications fills up", level=Level.BAD,
        does="End the session that listens in an old transaction: the first one in this list.",
        act=sql("SELECT pid, usename, xact_start, query FROM pg_stat_activity WHERE xact_start IS "
                "NOT NULL ORDER BY xact_start"), mends=False, login="the administrator",
        docs="alarms#findings-of-medusa-doctor", row="notifications of NAME"),
    # ------------------------------------------------------------ jobs
    "job_given_up": Kind(
        title="A job was given up", level=Level.BAD,
        does="Correct the cause, which its log names; then desire the job again.",
        act=command("medusa", "job", "start", "{home}", "--lane", "{lane}"),
        docs="alarms#jobs", row="6 jobs in a row failed", view="jobs"),
    "job_missing": Kind(
        title="A desired job does not run", level=Level.BAD,
        does="The supervisor starts it: unpause medusa_supervise, or trigger it.",
        act=dag("medusa_supervise", participants=["{home}"]),
        docs="alarms#airflows-dags", row="medusa_supervise", view="desired_jobs"),
    "nothing_runs": Kind(
        title="No driver runs, and none is desired", level=Level.BAD,
        does="Desire a job, if this participant shall compute.",
        act=command("medusa", "job", "start", "{home}"),
        docs="alarms#findings-of-medusa-status", row="none held: nothing runs here now",
        view="desired_jobs"),
    # ------------------------------------------------------------ alarms of a driver
    "alarm_catalog": Kind(
        title="The driver cannot use its catalog", level=Level.BAD,
        does="Restore what the sentence names; the driver continues by itself.",
        act=command("medusa", "doctor"), mends=False,
        docs="alarms#alarms-of-a-driver", row="NAME, the participant"),
    "alarm_step": Kind(
        title="A fragment cannot make its step", level=Level.BAD,
        does="Restore what the sentence names; the other fragments continue.",
        act=command("medusa", "doctor"), mends=False,
        docs="alarms#alarms-of-a-driver", row="a fragment, or corrections of one", view="steps"),
    "alarm_landing": Kind(
        title="A source cannot be read", level=Level.BAD,
        does="Restore the folder or the file that the sentence names.",
        act=command("medusa", "status", "--participant", "{home}"), mends=False,
        docs="alarms#alarms-of-a-driver", row="landing/STREAM", view="streams"),
    "alarm_files": Kind(
        title="Files changed after they had been read", level=Level.BAD,
        does="Remove or rename them, and move them in under new names.",
        act=command("medusa", "status", "--participant", "{home}"), mends=False,
        docs="alarms#alarms-of-a-driver", row="files of STREAM", view="streams"),
    "alarm_late": Kind(
        title="Late records cannot be admitted", level=Level.WARN,
        does="Declare late: quarantine in the stream's contract, then deploy.",
        act=dag("medusa_deploy", participant="{home}"),
        docs="alarms#alarms-of-a-driver", row="late records of STREAM", view="quarantine"),
    "alarm_import": Kind(
        title="A partner's line cannot be read", level=Level.BAD,
        does="Start the partner's driver, or restore the link; results are tentative meanwhile.",
        act=command("medusa", "doctor"), mends=False,
        docs="alarms#alarms-of-a-driver", row="import/STREAM of PARTNER/0", view="links"),
    "alarm_gap": Kind(
        title="A lost provider left a gap", level=Level.WARN,
        does="Nothing, if the loss is acceptable; otherwise agree on another recovery.",
        act=command("medusa", "status", "--participant", "{home}"), mends=False,
        docs="alarms#alarms-of-a-driver", row="a range of a fragment", view="segments"),
    "alarm_recalled": Kind(
        title="A partner took final rows back", level=Level.BAD,
        does="Follow the recall, once you agree with it.",
        act=command("medusa", "recall", "{stream}", "--from", "{time}", "--follow", "{partner}",
                    "--participant", "{home}"),
        docs="alarms#partners-and-contracts", row="partner NAME recalled STREAM from … on",
        view="recalls"),
    "alarm_exchange": Kind(
        title="The exchange server of this participant ended", level=Level.BAD,
        does="It is started again; if it repeats, remove the reason that the sentence names.",
        act=command("medusa", "doctor"), mends=False,
        docs="alarms#partners-and-contracts", row="alarm exchange", view="links"),
    "alarm_job_differs": Kind(
        title="A prepared job gave other rows than its plan", level=Level.WARN,
        does="Certify what the driver committed before, and report the message.",
        act=dag("medusa_quality", participant="{home}"), mends=False,
        docs="alarms#results-that-differ", row="the prepared job … of a fragment",
        view="certificates"),
    # ------------------------------------------------------------ streams and partners
    "link_broken": Kind(
        title="A partner cannot be reached", level=Level.BAD,
        does="Start the partner's driver, or restore the link; results are tentative meanwhile.",
        act=command("medusa", "doctor"), mends=False,
        docs="alarms#findings-of-medusa-status",
        row="LINK to NAME is unreachable for …, … is refused for …", view="links"),
    "partner_stopped": Kind(
        title="A partner does not run", level=Level.BAD,
        does="Its home is in this folder: desire its job.",
        act=command("medusa", "job", "start", "{partner}"),
        docs="alarms#findings-of-medusa-status",
        row="LINK to NAME is unreachable for …, … is refused for …", view="links"),
    "partner_without_address": Kind(
        title="A partner's server is not known here", level=Level.BAD,
        does="Invite the partner; its operator accepts the code that this prints.",
        act=command("medusa", "partner", "invite", "{subject}", "--participant", "{home}"),
        docs="alarms#partners-and-contracts",
        row="NAME is not known in this home, or was removed", view="partners"),
    "tentative": Kind(
        title="The newest results lack an input", level=Level.WARN,
        does="Restore the input that is missing; the results are then corrected.",
        act=command("medusa", "status", "--participant", "{home}"), mends=False,
        docs="alarms#findings-of-medusa-status", row="state UP_FAILURE", view="transitions"),
    "corrections_owed": Kind(
        title="Corrections have been owed for long", level=Level.WARN,
        does="Correct in a lane of its own, beside the live one.",
        act=dag("medusa_reconcile", participants=["{home}"]),
        docs="alarms#findings-of-medusa-status", row="state STABILIZATION for long",
        view="transitions"),
    "bound_not_kept": Kind(
        title="A bound may not be kept on this machine", level=Level.WARN,
        does="End other work, move a fragment, or declare a larger bound and deploy it.",
        act=dag("medusa_deploy", participant="{home}"),
        docs="alarms#findings-of-medusa-status",
        row="the bound of … may not be kept on this machine now", view="bounds"),
    "sink_blocked": Kind(
        title="A sink is blocked", level=Level.BAD,
        does="Correct the target or the contract as the sentence says, then deploy.",
        act=dag("medusa_deploy", participant="{home}"),
        docs="alarms#sinks", row="sink … is blocked: …", view="sinks"),
    "diverged": Kind(
        title="Two producers of a stream differ", level=Level.BAD,
        does="Find out which one is wrong; it recalls, and its readers follow.",
        act=command("medusa", "explain", "diverged", "{subject}", "--participant", "{home}"),
        mends=False,
        docs="alarms#disagreement", row="is disputed from …", view="divergences"),
    "law_broken": Kind(
        title="A certificate found a broken law", level=Level.BAD,
        does="Read what was found; certify again when it is corrected, or recall the window.",
        act=dag("medusa_quality", participant="{home}", stream="{subject}", **{
            "from": "{from_time}", "to": "{to_time}"}),
        docs="alarms#certificates", row="L1 complete", view="certificates"),
    "quarantined": Kind(
        title="Records were put into quarantine", level=Level.WARN,
        does="Look at the reasons; records of a source can be repaired and imported.",
        act=command("medusa", "read", "{subject}", "--quarantine", "--participant", "{home}"),
        mends=False, docs="alarms#quarantine", row="in quarantine because", view="quarantine"),
    # ------------------------------------------------------------ contracts and money
    "contract_requested": Kind(
        title="A partner proposes a contract", level=Level.WARN,
        does="Accept it as the owner, or make a proposal of your own.",
        act=sql("SELECT {api}.accept_contract({subject})"),
        docs="alarms#partners-and-contracts",
        row="contract stays proposed, requested or two unequal proposals",
        view="contract_proposals"),
    "bill_disputed": Kind(
        title="A statement is in dispute", level=Level.BAD,
        does="Compare the statements; concede, or let the partner do so.",
        act=command("medusa", "dispute", "concede", "{subject}", "{period}", "--participant",
                    "{home}"),
        docs="alarms#airflows-dags", row="medusa_settle", view="bill_disputes"),
    "envelopes_refused": Kind(
        title="Envelopes of a partner were refused", level=Level.WARN,
        does="Look at the reasons: forged, altered, late, or of a key that is not known here.",
        act=sql("SELECT received_at, kind, reason FROM {api}.inbox WHERE state = 'refused' AND "
                "sender = {subject}"), mends=False,
        docs="alarms#partners-and-contracts", row="is refused: in the log, Refused counted",
        view="inbox"),
}  # fmt: skip
"""Kind -> what it is and what mends it."""


def act_document(act: Act) -> dict[str, Any]:
    """An act as JSON values."""
    return {"means": act.means.value, "text": act.text, "form": act.form}


def form_text(form: Mapping[str, Any]) -> str:
    """The values of a form, as its JSON field takes them."""
    return json.dumps(form)
