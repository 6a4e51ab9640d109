"""What Spark raises, as one sentence: is it the data's fault, or is something missing now?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from medusa_core.errors import MedusaError, Refused, Unavailable

REASON_LENGTH_MAX = 300
_MISSING_NOW = re.compile(
    r"OutOfMemoryError|No space left on device|Unavailable:|Cannot allocate memory|"
    r"SparkContext was shut down|Job aborted due to stage failure: .*lost"
)
_NAMED = re.compile(r"^(?:Caused by: )?([\w.$]*(?:Error|Exception|Refused|Unavailable)): (.+)$")


@contextmanager
def spark_errors(where: str) -> Iterator[None]:
    """Turn Spark's exceptions into Refused (the step failed on its data) or Unavailable."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except MedusaError:
        raise
    except (Py4JNetworkError, ConnectionError) as error:
        raise Unavailable(
            f"Spark ended during the step of {where}: look into the log folder, then run again; it "
            "goes on from the last commit"
        ) from error
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if _MISSING_NOW.search(text):
            raise Unavailable(
                f"the step of {where} could not be finished now: {reason_in(text)}; free memory or "
                "disk, then run again; it goes on from the last commit"
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
        return f"{kind.rpartition('.')[2]}: {what}"[:REASON_LENGTH_MAX]
    return (lines[0] if lines else "Spark gave no reason")[:REASON_LENGTH_MAX]
