"""Supervision of Airflow's components: checked twice a second, restarted, given up.

`medusa_core/restart.py` makes the decisions. Airflow itself reports the health of its components:
the API server by answering, the others by heartbeats, which it reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NoReturn, assert_never

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from medusa_core.restart import (
    EndSilent,
    LeaveRunning,
    LeaveUnjudged,
    RestartLater,
    RestartNever,
    RestartNow,
    RestartPolicy,
    RestartState,
    decide_state,
)
from pipelines.base import clock
from pipelines.base.log_rotation import remove_old, rotate_logs
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes
from pipelines.platform.airflow_components.airflow_database import Pulse
from pipelines.platform.airflow_components.airflow_folder import USER, PlatformFolder
from pipelines.platform.airflow_components.components import (
    API_SERVER,
    CLEANING,
    COMPONENTS,
    MIGRATION,
    Children,
)
from pipelines.platform.airflow_components.environment import Place
from pipelines.platform.airflow_components.health import read_dags, read_health
from pipelines.platform.airflow_components.passwords import write_passwords
from pipelines.platform.airflow_components.platform_state import Shown, StateFile, now_ms

COMPONENT_RESTARTS = RestartPolicy(
    back_off_ms=1_000,
    back_off_ms_max=60_000,
    failures_max=10,
    start_ms_max=240_000,
    silent_ms_max=120_000,
)
TICK_S = 0.5
HEALTH_EVERY_MS = 1_000
CALM_EVERY_MS = 5_000
LOGS_EVERY_MS = 10_000
OLD_EVERY_MS = 3_600_000
STOOD_STILL_MS = 30_000
CLEAN_EVERY_MS = 86_400_000
KEPT_DAYS = 14.0
START_MS_MAX = 300_000
DAGS_MS_MAX = 90_000


class Keeping:
    """One life of the components, from their start until something ends it."""

    def __init__(
        self,
        *,
        settings: Settings,
        folder: PlatformFolder,
        place: Place,
        server: EmbeddedServer | None,
        pulse: Pulse,
        children: Children,
        state_file: StateFile,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._place = place
        self._server = server
        self._pulse = pulse
        self._children = children
        self._state_file = state_file
        self._states = {name: RestartState(name=name) for name in COMPONENTS}
        self._because: dict[str, str] = {}
        self._began_ms = self._turned_ms = now_ms()
        self._all_well_ms: int | None = None
        self._answers_since_ms: int | None = None
        self._api_since_ms: int | None = None
        self._last_ms: dict[str, int] = {}
        self._homes: Mapping[Participant, str] | None = None

    def keep(self) -> NoReturn:
        """Until interrupted. Raises Unavailable if they do not come up, or the server is lost."""
        while True:
            self._notice_a_pause()
            self._look_at_homes()
            self._look_at_database()
            self._look_at_processes()
            self._look_at_health()
            for name in COMPONENTS:
                self._tick(name)
            if self._state_file.phase == "starting":
                self._look_whether_up()
            if self._is_time("logs", LOGS_EVERY_MS):
                rotate_logs(self._logs())
            if self._is_time("old", OLD_EVERY_MS):
                remove_old(self._folder.root / "logs", days=KEPT_DAYS)
            self._clean()
            self._state_file.show(
                [Shown(one, self._because.get(name, "")) for name, one in self._states.items()],
                self._children,
                database_answers=self._answers_since_ms is not None,
            )
            clock.sleep_s(TICK_S)

    # ------------------------------------------------------------ what is seen

    def _notice_a_pause(self) -> None:
        """Judge nobody by signs of life that could not be seen, such as while a laptop slept."""
        now, last = now_ms(), self._turned_ms
        self._turned_ms = now
        if abs(now - last) > STOOD_STILL_MS:
            self._state_file.log(f"stood still, or the clock was set: {(now - last) / 1000:.0f} s")
            self._answers_since_ms = self._api_since_ms = None

    def _look_at_homes(self) -> None:
        homes = known_homes(self._settings.directory)
        if self._homes != homes:
            self._homes = homes
            address = "" if self._server is None else self._server.address
            command = write_passwords(self._folder, self._settings, address)
            self._state_file.note(psql=command)

    def _look_at_database(self) -> None:
        if self._pulse.beats():
            self._answers_since_ms = self._answers_since_ms or now_ms()
            return
        if self._answers_since_ms is not None:
            self._state_file.log("the database does not answer")
        self._answers_since_ms = self._api_since_ms = None
        if self._server is not None:
            self._server.revive()

    def _look_at_processes(self) -> None:
        for name, state in self._states.items():
            if state.started_ms is None:
                continue
            code = self._children.exit_code(name)
            if code is None:
                continue
            left = self._children.end((name,), grace_ms=0)
            self._state_file.log(
                f"{name} ended (exit code {code}); {left} processes of it were left"
            )
            self._states[name] = state.after_end(
                now_ms(),
                COMPONENT_RESTARTS,
                was_killed=code < 0,
                is_at_fault=self._answers_since_ms is not None,
            )

    def _look_at_health(self) -> None:
        every_ms = HEALTH_EVERY_MS if self._is_starting() else CALM_EVERY_MS
        if self._answers_since_ms is None or not self._is_time("health", every_ms):
            return
        runs = self._states[API_SERVER].started_ms is not None
        heard = read_health(self._place.reached_at) if runs else None
        if heard is None:
            self._api_since_ms = None
            return
        now = now_ms()
        self._api_since_ms = self._api_since_ms or now
        for name, at_ms in {**heard, API_SERVER: now}.items():
            self._states[name] = self._states[name].after_sign(at_ms)

    def _is_starting(self) -> bool:
        return any(one.well_ms is None for one in self._states.values())

    # ------------------------------------------------------------ what is done

    def _tick(self, name: str) -> None:
        now, state = now_ms(), self._states[name]
        runs = state.started_ms is not None
        # The API server reports the others' signs of life.
        judged = self._api_since_ms if runs and name != API_SERVER else self._answers_since_ms
        decision = decide_state(state, COMPONENT_RESTARTS, now_ms=now, judged_since_ms=judged)
        self._because[name] = decision.because
        match decision:
            case LeaveRunning() | LeaveUnjudged() | RestartLater():
                return
            case RestartNever():
                if not state.is_given_up:
                    log = self._children.log(name)
                    self._state_file.log(f"{name} is given up: {decision.because}; see {log}")
                    self._states[name] = state.after_giving_up()
            case EndSilent():
                self._state_file.log(f"{name} is ended, to be started again: {decision.because}")
                self._children.end((name,))
                self._states[name] = state.after_end(now, COMPONENT_RESTARTS, was_killed=True)
            case RestartNow():
                self._state_file.log(f"{name} is started: {decision.because}")
                self._children.start(name, COMPONENTS[name])
                self._states[name] = state.after_start(now)
            case _:
                assert_never(decision)

    def _look_whether_up(self) -> None:
        late = [name for name, one in self._states.items() if one.well_ms is None]
        for name in late:
            waited_ms = now_ms() - self._began_ms
            if self._states[name].is_given_up or waited_ms > START_MS_MAX:
                raise Unavailable(
                    f"Airflow's {name} does not come up: the reason is in "
                    f"{self._children.log(name)}"
                )
        if late:
            return
        self._all_well_ms = self._all_well_ms or now_ms()
        self._state_file.say("starting", "the DAGs")
        if not self._is_time("dags", HEALTH_EVERY_MS):
            return
        notes = self._notes_on_dags(is_late=now_ms() - self._all_well_ms > DAGS_MS_MAX)
        if notes is not None:
            took_ms = now_ms() - self._began_ms
            self._state_file.say("up", notes=notes, took_ms=took_ms)
            self._state_file.log(f"up after {took_ms / 1000:.1f} s")

    def _notes_on_dags(self, *, is_late: bool) -> list[str] | None:
        """Notes about the DAGs' files; None if they are still being read."""
        password, _ = self._folder.password()
        read = read_dags(self._place.reached_at, USER, password)
        expected = {path.name for path in self._place.dags.glob("medusa_*.py")}
        if read is not None:
            expected -= read.files | {Path(path).name for path in read.broken}
        if expected and not is_late:
            return None
        broken = read.broken if read is not None else {}
        return [
            *(f"DAG file {name} was not read in time" for name in sorted(expected)),
            *(f"DAG file {name} has an error: {line}" for name, line in sorted(broken.items())),
        ]

    def _clean(self) -> None:
        """Once a day, forget in Airflow's database the runs whose logs are gone."""
        if self._children.pid(CLEANING) is not None:
            code = self._children.exit_code(CLEANING)
            if code is None:
                return
            self._children.end((CLEANING,), grace_ms=0)
            if code != 0:
                self._state_file.log(
                    f"old runs were not forgotten (exit code {code}): see "
                    f"{self._children.log(CLEANING)}; it is tried again in a day"
                )
            return
        cleaned_ms = self._folder.chosen().get("cleaned_ms")
        if not isinstance(cleaned_ms, int):  # made just now
            self._folder.choose(cleaned_ms=now_ms())
        elif self._state_file.phase == "up" and now_ms() - cleaned_ms >= CLEAN_EVERY_MS:
            self._folder.choose(cleaned_ms=now_ms())
            before = clock.now_utc() - timedelta(days=KEPT_DAYS)
            words = ("db", "clean", "--clean-before-timestamp", before.isoformat())
            self._children.start(CLEANING, (*words, "--skip-archive", "--yes"))

    def _logs(self) -> Sequence[Path]:
        names = (*COMPONENTS, MIGRATION, CLEANING)
        ours = [self._folder.supervisor_log, *map(self._children.log, names)]
        ours += self._folder.logs.glob("job-*.out")
        return [*ours, *([self._server.log] if self._server else [])]

    def _is_time(self, what: str, every_ms: int) -> bool:
        now = now_ms()
        if now - self._last_ms.get(what, now - every_ms) < every_ms:
            return False
        self._last_ms[what] = now
        return True
