"""`python -m pipelines.cli.spark_classes`: archive the classes that Spark loads, once per machine.

Part of the set-up, not of `medusa`: see `pipelines/spark/classes.py`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from medusa_core.errors import MedusaError
from pipelines.cli.interrupts import interruptible
from pipelines.spark.classes import make_archive

INTERRUPTED = 130


def main() -> int:
    """Make the archive and print where it is; if none can be made, print why."""
    directory = Path(tempfile.mkdtemp(prefix="medusa-classes-"))
    keeps_logs = False
    try:
        with interruptible():
            print(f"Spark's classes: {make_archive(directory)}")
        return 0
    except MedusaError as error:
        keeps_logs = (directory / "logs").is_dir()
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("no archive of Spark's classes was made; jobs start as before", file=sys.stderr)
        return INTERRUPTED
    finally:
        if not keeps_logs:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
