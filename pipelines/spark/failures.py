"""Errors of Spark as one sentence: a fault of the data, something unavailable, or Spark's end.

When the JVM dies (killed for its memory, say), every call into it fails, in one of half a dozen
forms that depend on the moment. Every error raised after its process has ended means that.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from medusa_core.errors import MedusaError, Refused, Unavailable

REASON_LENGTH_MAX = 300
ENDING_S_MAX = 2.0
"""How long a JVM may take to be gone after its connections broke."""

_MISSING_NOW = re.compile(
    r"OutOfMemoryError|No space left on device|Unavailable:|Cannot allocate memory|FILE_NOT_EXIST|"
    r"SparkContext was shut down|Job aborted due to stage failure: .*lost|ExecutorLostFailure|"
    r"Master removed our application|maximum allowable number of times|heartbeat timed out"
)
_NAMED = re.compile(r"^(?:Caused by: )?([\w.$]*(?:Error|Exception|Refused|Unavailable)): (.+)$")


class SparkEnded(MedusaError):
    """The JVM of this process has ended: it was killed, or ran out of memory; run it again.

    No `Unavailable`: what is unavailable comes back to a process that waits for it, this does not.
    """

    exit_code = Unavailable.exit_code


def jvm_has_ended(wait_s: float = 0.0) -> bool:
    """Whether the JVM that this process started for Spark has ended, within the time at most."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(timeout=wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def check_jvm() -> None:
    """Raises SparkEnded if the JVM has ended."""
    if jvm_has_ended():
        raise _ended()


@contextmanager
def jvm_errors(on_end: Callable[[SparkEnded], None] = lambda error: None) -> Iterator[None]:
    """Raise SparkEnded instead of whatever the end of the JVM made of the work; tell of it too."""
    try:
        yield
    except Exception as error:
        # Any kind: a library may have wrapped it in an error of its own.
        if isinstance(error, SparkEnded):
            on_end(error)
            raise
        if not _is_of_jvms_end(error):
            raise
        ended = _ended()
        on_end(ended)
        raise ended from error


@contextmanager
def spark_errors(where: str) -> Iterator[None]:
    """Turn Spark's exceptions into Refused (the step failed on its data), Unavailable, SparkEnded.

    Raises Unavailable too if a connection to a JVM that lives was lost.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        with jvm_errors():
            yield
    except MedusaError:
        raise
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        if isinstance(error, Py4JNetworkError | ConnectionError | EOFError):
            raise Unavailable(
                f"Spark did not answer in the step of {where}: look into the log folder, then run "
                "again; it continues from the last commit"
            ) from error
        text = str(error)
        if _MISSING_NOW.search(text):
            raise Unavailable(
                f"the step of {where} could not be finished now: {reason_in(text)}; free memory or "
                "disk, then run again; it continues from the last commit"
            ) from error
        raise Refused(f"the step of {where} failed on its data: {reason_in(text)}") from error


def reason_in(text: str) -> str:
    """The innermost cause that says something: of a Python worker, of Java, or the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Spark's own error classes carry the whole reason in their first line, but for workers'.
    if lines and lines[0].startswith("[") and "Python worker" not in lines[0]:
        return lines[0][:REASON_LENGTH_MAX]
    named = [match for line in lines if (match := _NAMED.match(line))]
    if named:
        kind, what = named[-1].groups()
        kind = kind.rpartition(".")[2]
        # A sentence of our own, raised in a worker, needs no name of its kind before it.
        return (what if kind == Refused.__name__ else f"{kind}: {what}")[:REASON_LENGTH_MAX]
    return (lines[0] if lines else "Spark gave no reason")[:REASON_LENGTH_MAX]


def _ended() -> SparkEnded:
    return SparkEnded(
        "the Java process under Spark has ended (killed, or out of memory): see jvm.log and "
        "spark.log in the log folder, free memory, then run again; it continues from the last "
        "commit"
    )


def _is_of_jvms_end(error: BaseException) -> bool:
    """Whether an error, or what led to it, came of a JVM that is gone."""
    if "pyspark.core.context" not in sys.modules:
        return False
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    at: BaseException | None = error
    while at is not None:
        if isinstance(at, Py4JJavaError | PySparkException):
            return jvm_has_ended()
        # A connection that broke during a call may be reported as a bare error of the call.
        if isinstance(at, Py4JError | ConnectionError | EOFError):
            return jvm_has_ended(ENDING_S_MAX)
        at = at.__cause__ or at.__context__
    return False
