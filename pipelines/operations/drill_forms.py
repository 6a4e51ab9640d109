"""The form of a drill: every value is checked, and the streams to judge are chosen.

These are the streams that the named participants compute, and those that others compute from
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.homes.home import Home, known_homes, open_home
from pipelines.operations import form_values
from pipelines.operations.drilling import LINKS, SCENES, Drill, JudgedStream
from pipelines.operations.own_lines import computed_lines
from pipelines.platform.drills.run_processes import running_in

LASTS_US_MAX, WAITS_US_MAX, BY_US_MAX = 3_600_000_000, 86_400_000_000, 3_600_000_000


def prepare(settings: Settings, form: Mapping[str, Any]) -> Drill:
    """The drill of a form, checked, with the streams to judge as they are now.

    Raises Refused for a value that is not valid, Unavailable if a participant does not run.
    """
    scene = form_values.text_of("scene", form.get("scene"))
    if scene not in SCENES:
        raise Refused(f"scene {scene!r} is not a valid one: choose {', '.join(SCENES)}")
    one = form_values.participant_of("participant", settings, form.get("participant"))
    partner = form_values.text_of("partner", form.get("partner"))
    names = [one]
    if scene in LINKS:
        names.append(form_values.participant_of("partner", settings, partner))
        if names[0] == names[1]:
            raise Refused(f"partner: there is no link between {one} and itself: name another")
    elif partner is not None:
        raise Refused(f"scene {scene} is about one participant: leave partner empty")
    lasts_us = form_values.duration_of(
        "lasts", form.get("lasts"), least_us=1_000_000, most_us=LASTS_US_MAX
    )
    if lasts_us is None:
        raise Refused("lasts is empty: say for how long, such as 30s")
    by_us = form_values.duration_of("by", form.get("by"), least_us=1_000, most_us=BY_US_MAX)
    if scene == "slow" and by_us is None:
        raise Refused("by is empty: say by how much the link is to be slower, such as 500ms")
    waits_us = form_values.duration_of(
        "patience", form.get("patience"), least_us=1_000_000, most_us=WAITS_US_MAX
    )
    _check_run(settings, names)
    return Drill(
        scene=scene,
        participants=tuple(names),
        lasts_s=lasts_us / 1_000_000,
        by_ms=(by_us or 0) // 1_000,
        recovers_s_max=(waits_us or 300_000_000) / 1e6,
        must_be_in_time=bool(form.get("must_be_in_time", True)),
        judged=_judged(settings, names, form.get("network")),
    )


def _check_run(settings: Settings, names: Sequence[Participant]) -> None:
    drives = {p.participant for p in running_in(settings.directory) if not p.waits}
    for name in names:
        if name not in drives:
            raise Unavailable(
                f"{name} does not run in {settings.directory}: start it with medusa_deploy or "
                "medusa job start, and wait until it drives"
            )


def _judged(
    settings: Settings, names: Sequence[Participant], network: Any
) -> tuple[JudgedStream, ...]:
    """The streams that the drill may affect."""
    found: list[JudgedStream] = []
    known: set[str] = set()
    chosen = form_values.text_of("network", network)
    for name in sorted(known_homes(settings.directory)):
        with open_home(settings, name) as home:
            catalog = home.catalog
            known |= {str(record.network) for record in catalog.plans()}
            senders = {line.producer.participant for line in catalog.lines()}
            if name not in names and not senders & set(names):
                continue
            of_network = _streams_of(home, chosen)
            found += [
                JudgedStream(
                    home=name,
                    stream=line.stream.name,
                    from_us=line.stable_through_us,
                    clock_ms=catalog.read_clock_ms(),
                )
                for line in computed_lines(home)
                if line.stable_through_us is not None
                and (of_network is None or line.stream.name in of_network)
            ]
    form_values.network_of("network", chosen, known)
    if not found:
        raise Refused(
            f"nothing is computed by {' or '.join(names)}, or from what they send, that has begun: "
            "let it run first"
        )
    return tuple(found)


def _streams_of(home: Home, network: str | None) -> set[StreamName] | None:
    if network is None:
        return None
    from pipelines.homes.deployed_fragments import fragments_in_force

    plans = {r.id for r in home.catalog.plans(superseded=True) if r.network == network}
    mine = {a.fragment for a in home.catalog.assignments() if a.plan in plans}
    fragments = fragments_in_force(home.catalog)
    return {s for name, f in fragments.items() if name in mine for s in f.outputs}
