"""`medusa explain diverged`: where producers of a stream disagree, in which rows, what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.divergence import Divergence, Side
from medusa_core.errors import Diverged
from medusa_core.names import Participant, StreamName
from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import facts, table
from pipelines.base.time_text import iso

if TYPE_CHECKING:
    from pipelines.changes.diverged_rows import Explained
    from pipelines.homes.home import Home

VALUE_CHARACTERS_MAX = 200


def explain_diverged(
    settings: Settings, participant: str | None, stream: str | None, *, as_json: bool
) -> int:
    """Print every divergence that is not settled; 6 if there is one, else 0."""
    from pipelines.changes.diverged_rows import explained
    from pipelines.changes.line_versions import line_of
    from pipelines.homes.home import chosen_participant, open_home

    with open_home(settings, chosen_participant(settings, participant)) as home:
        name = None if stream is None else line_of(home.catalog, stream).stream.name
        found = [explained(home.catalog, home.storage, d) for d in _open(home, name)]
        if as_json:
            document = {
                "participant": home.participant,
                "diverged": [_document(one, home.participant) for one in found],
            }
            print(json.dumps(document, indent=1, allow_nan=False))
        elif found:
            print("\n\n".join(_text(one, home.participant) for one in found))
        else:
            print("nothing has diverged")
    return Diverged.exit_code if found else 0


def _open(home: Home, stream: StreamName | None) -> tuple[Divergence, ...]:
    return home.catalog.divergences(stream)


def _text(one: Explained, here: Participant) -> str:
    divergence = one.divergence
    heading = facts(
        [
            ("stream", divergence.stream),
            ("bucket", iso(divergence.bucket_us)),
            ("plan", divergence.plan),
            (str(divergence.one.producer), _side(divergence.one)),
            (str(divergence.other.producer), _side(divergence.other)),
        ]
    )
    names = ("only in", "stime", *(column.name for column in one.columns))
    rows = [
        (str(row.producer), iso(row.stime_us), *(_shown(value) for value in row.values))
        for row in one.rows
    ]
    parts = [heading]
    if rows:
        parts.append(table(names, rows))
    if one.lost:
        lost = ", ".join(map(str, one.lost))
        parts.append(f"the rows of {lost} are not there any more: they were trimmed or recalled")
    if one.problem is not None:
        parts.append(f"the rows cannot be shown: {one.problem}")
    return "\n\n".join([*parts, _advice(divergence, here)])


def _side(side: Side) -> str:
    return f"{counted(side.digest.rows, 'row')} at version {side.version}, digest {side.digest}"


def _advice(divergence: Divergence, here: Participant) -> str:
    """What ends it: whoever is wrong takes it back."""
    begins = iso(divergence.bucket_us)
    advice = [
        f"if {side.producer} is wrong: `medusa recall {divergence.stream} --from {begins} "
        "--because TEXT`"
        + (
            " here"
            if side.producer.participant == here
            else f" in its home, then here `medusa recall {divergence.stream} --from {begins} "
            f"--follow {side.producer.participant}`"
        )
        for side in (divergence.one, divergence.other)
    ]
    return "\n".join(advice)


def _shown(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text[:VALUE_CHARACTERS_MAX]


def _document(one: Explained, here: Participant) -> Mapping[str, Any]:
    divergence = one.divergence
    return {
        "stream": divergence.stream,
        "bucket_us": divergence.bucket_us,
        "bucket": iso(divergence.bucket_us),
        "plan": divergence.plan,
        "sides": [
            {
                "producer": str(side.producer),
                "version": side.version,
                "rows": side.digest.rows,
                "digest": str(side.digest),
                "is_lost": side.producer in one.lost,
            }
            for side in (divergence.one, divergence.other)
        ],
        "differing_rows": [
            {
                "only_in": str(row.producer),
                "stime_us": row.stime_us,
                **{
                    f"column:{column.name}": None if value is None else _shown(value)
                    for column, value in zip(one.columns, row.values, strict=True)
                },
            }
            for row in one.rows
        ],
        "problem": one.problem,
        "noticed_at_ms": divergence.noticed_at_ms,
        "what_to_do": _advice(divergence, here).splitlines(),
    }
