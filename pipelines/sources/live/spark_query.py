"""A streaming query run over the data available at its start, in a separate session.

An error of the batch function is raised unchanged; every other message of Spark becomes one
sentence, without the values of the environment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The default starts a process (readlink, chmod) for every file of the checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
_WORDS_MAX = 300


class Enough(Exception):
    """Raised by a batch function that will not take this batch now: the next query offers it."""


def session_for_queries(session: SparkSession) -> SparkSession:
    """A session derived from the given one, with the settings of queries."""
    own = session.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    return own


def run_query(
    frame: DataFrame,
    on_batch: Callable[[DataFrame, int], None],
    checkpoint: Path,
    *,
    what: str,
    hidden: Sequence[str],
) -> tuple[bool, Mapping[str, Any]]:
    """Give `on_batch` all that is there now, batch by batch; whether it took all, and progress.

    Raises what `on_batch` raised, but for Enough; Unavailable, saying `what` cannot be read, for
    anything else that ends the query.
    """
    from pyspark.errors import PySparkException

    raised: list[BaseException] = []

    def guarded(batch: DataFrame, batch_id: int) -> None:
        try:
            on_batch(batch, batch_id)
        except BaseException as error:
            raised.append(error)
            raise

    def is_unknown(record: logging.LogRecord) -> bool:
        return not raised  # py4j tells of what is raised below anyway

    _close_idle_callbacks(frame.sparkSession)
    logger = logging.getLogger("py4j.clientserver")
    logger.addFilter(is_unknown)
    try:
        writer = frame.writeStream.foreachBatch(guarded).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.awaitTermination()
        finally:
            progress = query.lastProgress
            query.stop()
    except PySparkException as error:
        if not raised:
            words = first_words(error, hidden)
            raise Unavailable(
                f"{what} cannot be read now ({words}): see that it is there, and the Spark log"
            ) from None
    finally:
        logger.removeFilter(is_unknown)
    if raised and not isinstance(raised[0], Enough):
        raise raised[0] from None
    return not raised, progress or {}


def _close_idle_callbacks(session: SparkSession) -> None:
    """Close what queries that have ended called through: else each leaves a thread and a socket.

    A query calls from a thread of its own, a thread that calls gets a connection of its own, that a
    thread here, and nothing closes it. What was used since the last call of this stays once more.
    """
    from py4j.java_gateway import JavaObject

    gateway = session.sparkContext._gateway
    if gateway is not None:
        server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
        server.getCallbackClient().periodicCleanup()


def first_words(error: Exception, hidden: Sequence[str]) -> str:
    """What Spark says, in a line, without what must not be shown."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage() or "")
    lines = text.strip().splitlines() or [type(error).__name__]
    words = lines[0].rpartition("terminated with exception: ")[2]
    for secret in hidden:
        words = words.replace(secret, "***")
    return words[:_WORDS_MAX].rstrip(".")


def checkpoint_numbers(checkpoint: Path, log: str) -> list[int]:
    """The batches in a log of a checkpoint (`offsets`: begun, `commits`: done)."""
    folder = checkpoint / log
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
