"""Errors of the data source as a user of Spark sees them: one sentence, no trace, no password.

Medusa's code runs in Python processes of Spark's that print the whole trace of an error, which is
of no use to the author of a `spark.read`. Spark omits the trace if an environment variable says
so; it is set only when an error is raised, which ends the process.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from medusa_core.errors import MedusaError
from pipelines.base.redaction import SafeText
from pipelines.base.settings import CATALOG_URL, environment, set_environment

HIDE_TRACE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """The outermost line of whatever Spark calls: errors of ours as they are, all others as ours.

    Any other error is reported by its kind and a file with its trace.
    """
    try:
        yield
        return
    except MedusaError as error:
        refused = type(error)(_safe()(error))
    except Exception as error:  # noqa: BLE001 the outermost line
        refused = MedusaError(_bug(error))
    set_environment({HIDE_TRACE: "1"})
    raise refused from None


def _bug(error: Exception) -> str:
    safe = _safe()
    with tempfile.NamedTemporaryFile(
        "w", prefix="medusa-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.writelines(safe(line) for line in traceback.format_exception(error))
    return f"a fault of Medusa's own ({type(error).__name__}); the trace is in {log.name}"


def _safe() -> SafeText:
    return SafeText([environment().get(CATALOG_URL)])
