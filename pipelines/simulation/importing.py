"""Reading a partner's stream: ask for news, fetch the files it names, bring it in, acknowledge.

The calls are those of `pipelines/exchange/importing.py` in the same order. What is between two
participants can be stopped by a cut link, a paused catalog and a late answer. News that came late
or twice is brought like any other: the home says whether it still fits.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from medusa_core.errors import Conflict, OutcomeUnknown, Unavailable
from medusa_core.exchange import ImportStanding, LineNews
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from pipelines.simulation.calls import short, write
from pipelines.simulation.drivers import POLL_MS, RETRY_MS, import_key
from pipelines.simulation.homes import SimulatedHome
from pipelines.simulation.processes import Process, Rest, Work

if TYPE_CHECKING:
    from pipelines.simulation.world import World

ANSWER_MS = (2, 40)
FETCH_MS = 5
READER_LIMIT_MS = 600_000


def bring_in(world: World, process: Process, stream: StreamName, writer: Producer) -> Work:
    """Follow one line of a partner for ever."""
    home = world.homes[process.participant]
    while True:
        try:
            standing = yield from short(lambda: standing_of(home, stream, writer))
            news = yield from ask(world, process, standing)
            if news is None:
                yield Rest(POLL_MS, sleeps=True)
                continue
            if not (yield from bring(world, process, home, news)):
                # The end is known before the rows that reach it: nothing to bring in yet.
                yield Rest(POLL_MS, sleeps=True)
                continue
            if world.takes_order("news again", process.participant):
                yield from bring(world, process, home, news)
            while world.late_news.get((process.participant, stream)):
                late = world.late_news[process.participant, stream].pop()
                world.emit(process.name, "late news", f"{stream} after v{late.after}")
                yield from bring(world, process, home, late)
        except Conflict as error:
            world.emit(process.name, "conflict", f"import {stream}", str(error))
            yield Rest(RETRY_MS, is_timer=True)
        except (Unavailable, OutcomeUnknown) as error:
            world.emit(process.name, "no news", stream, str(error))
            yield Rest(RETRY_MS, is_timer=True)


def standing_of(home: SimulatedHome, stream: StreamName, writer: Producer) -> ImportStanding:
    """How far this home's copy of a line has come."""
    standings = home.reach().imports()
    return next(s for s in standings if (s.stream, s.producer) == (stream, writer))


def ask(
    world: World, process: Process, standing: ImportStanding
) -> Generator[Rest, None, LineNews | None]:
    """What the partner tells of a line, None if nothing; Unavailable if it is late or away."""
    reader, writer = process.participant, standing.producer.participant
    world.check_link(reader, writer)
    news = yield from short(
        lambda: (
            world.homes[writer]
            .reach()
            .line_news(
                standing.stream,
                standing.producer,
                standing.version,
                segments_max=world.scenario.news_segments_max,
            )
        )
    )
    yield Rest(world.chance.randint(*ANSWER_MS))
    world.check_link(reader, writer)
    has_begun = standing.boundary_us is not None or news.origin_us is None
    has_end = news.end_us is None or standing.has_ended
    if news.version == standing.version and has_begun and has_end:
        return None
    if world.takes_order("late news", reader):
        world.late_news.setdefault((reader, standing.stream), []).append(news)
        raise Unavailable(f"{writer} does not answer in time")
    return news


def bring(
    world: World, process: Process, home: SimulatedHome, news: LineNews
) -> Generator[Rest, None, bool]:
    """Fetch the files that news names, and bring it into the home; False if it was brought."""
    partner = world.homes[news.producer.participant]
    yield Rest(FETCH_MS)
    world.check_link(process.participant, partner.participant)
    for published in news.segments:
        if published.end_version is not None:
            continue
        for file in published.segment.files:
            if home.storage.hash(file.path) != file.sha256:
                home.storage.write(file.path, partner.storage.read(file))
    yield Rest(FETCH_MS)
    lease = process.lease(import_key(news.stream, Producer(process.participant)))
    plan = world.scenario.plan
    is_new = yield from write(
        world, process, home, lease, lambda catalog: catalog.import_line(lease, news, plan)
    )
    world.emit(
        process.name,
        "import",
        f"{news.stream} v{news.after} to v{news.version}",
        f"{len(news.segments)} segments" if is_new else "brought before",
    )
    yield from acknowledge(world, process, home, news.stream, news.producer)
    return is_new


def acknowledge(
    world: World, process: Process, home: SimulatedHome, stream: StreamName, writer: Producer
) -> Work:
    """Tell the partner what of its stream is safe here; if it is away, the next time."""
    reader = process.participant
    through_us = standing_of(home, stream, writer).safe_through_us
    if through_us is None:
        return
    try:
        world.check_link(reader, writer.participant)
        yield from short(
            lambda: (
                world.homes[writer.participant]
                .reach()
                .acknowledge(stream, reader, through_us, READER_LIMIT_MS)
            )
        )
    except Unavailable as error:
        world.emit(process.name, "no ack", stream, str(error))
    yield Rest(1, gap="5-6")
