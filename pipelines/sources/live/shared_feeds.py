"""Shared feeds: the streams that one query feeds, and the feed's name.

Streams with the same declarations and networks, except for their name and their value of the
column, are one feed. It is named after the stream that was its first when it began, and keeps
that name, by the landed batches of its streams, whichever streams join or leave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from medusa_core.network import Source
from pipelines.sources.live.declared_fields import Where
from pipelines.sources.live.shared_lander import FEED
from pipelines.sources.live.source_declaration import SourceDeclaration, WatchedDirectory
from pipelines.sources.live.source_state import LiveState
from pipelines.sources.live.spark_feed import SparkFeed

if TYPE_CHECKING:
    from pipelines.sources.live.source_factory import Declared, Place

DIRECTORY, SPARK = "shared-directory", "shared-spark"
"""The query ids under which each kind lands, and the names of their checkpoints' folders."""


def where_of(declaration: SourceDeclaration) -> Where:
    """Which records are a stream's."""
    assert isinstance(declaration, WatchedDirectory | SparkFeed), "only these say where"
    assert declaration.where is not None, "a stream of a feed says which records are its"
    return declaration.where


def feed_kind(declaration: SourceDeclaration) -> str:
    """The query id of a feed of this kind."""
    return DIRECTORY if isinstance(declaration, WatchedDirectory) else SPARK


def feeds_of(
    declared: Mapping[StreamName, Declared], place: Place
) -> dict[StreamName, list[Declared]]:
    """Feed -> its streams by name.

    Raises Refused if streams that were fed together are not declared alike any more, or if those
    that are were fed apart so far.
    """
    groups: list[list[Declared]] = []
    for _, one in sorted(declared.items()):
        for group in groups:
            if _is_alike(group[0], one):
                group.append(one)
                break
        else:
            groups.append([one])
    feeds: dict[StreamName, list[Declared]] = {}
    for group in groups:
        feed = _feed_of(group, place)
        if feed in feeds:
            others = feeds[feed][0].source.name
            raise Refused(
                f"{group[0].source.name} and {others} are fed together so far, but are not "
                "declared alike any more: declare their sources alike but for the value of where, "
                "or give one of them another name"
            )
        feeds[feed] = group
    return feeds


def _is_alike(one: Declared, other: Declared) -> bool:
    if where_of(one.declaration).column != where_of(other.declaration).column:
        return False
    return _without_value(one.declaration) == _without_value(other.declaration) and _without_name(
        one.source
    ) == _without_name(other.source)


def _without_value(declaration: SourceDeclaration) -> SourceDeclaration:
    assert isinstance(declaration, WatchedDirectory | SparkFeed), "only these say where"
    return replace(declaration, where=None)


def _without_name(source: Source) -> list[object]:
    values = [getattr(source, f.name) for f in fields(source) if f.name != "name"]
    # The order of columns is that in files.
    return [list(v.items()) if isinstance(v, Mapping) else v for v in values]


def _feed_of(group: Sequence[Declared], place: Place) -> StreamName:
    """The feed's name: the one under which its streams landed, else that of its first stream."""
    streams = [StreamName(one.source.name) for one in group]
    kind = feed_kind(group[0].declaration)
    found: dict[StreamName, StreamName] = {}
    for stream, (_, text) in place.catalog.landed_states(streams, kind).items():
        feed = LiveState.from_json(stream, text).at.get(FEED)
        if isinstance(feed, str):
            found.setdefault(StreamName(feed), stream)
    if len(found) > 1:
        one, other = list(found.values())[:2]
        raise Refused(
            f"{one} and {other} were fed by two queries so far: declare their sources as they "
            "were, or give one of them another name"
        )
    if found:
        return next(iter(found))
    # A feed may have begun and landed nothing yet.
    begun = [s for s in streams if (place.checkpoints / s / kind).is_dir()]
    return (begun or streams)[0]
