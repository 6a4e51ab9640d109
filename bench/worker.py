"""The process of one contender: a line of JSON in, a line of JSON out.

    python -m bench.worker '{"contender": "bare", "workload": {…}, "folder": "…"}'

It prints {"ready": true} once Spark runs, then answers `prepare`, `step`, `finish`; it ends when
its input does, and the JVM with it. Output of Spark and Python is written to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bench.contender import Contender
from bench.workload import QUERIES, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_contender(name: str, session: SparkSession, folder: Path, workload: Workload) -> Contender:
    """The contender of that name, in the fastest form found for the workload."""
    if workload.query not in QUERIES:
        from bench.language.contenders import open_case

        return open_case(name, session, folder, workload)
    match name:
        case "bare":
            from bench.bare import Bare, fastest_form

            return Bare(session, folder, workload.query, **fastest_form(workload.records))
        case "streaming":
            from bench.streaming import Streaming, fastest_settings

            settings = fastest_settings(workload.records)
            return Streaming(
                session=session, folder=folder, query=workload.query, settings=settings
            )
        case "medusa":
            from bench.product import Product

            return Product(session, folder, workload)
    raise AssertionError(f"no such contender: {name}")


def answer(contender: Contender, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Do what one line asks."""
    match asked["do"]:
        case "prepare":
            files = contender.prepare([Path(f) for f in asked["files"]])
            return {"files": [str(f) for f in files]}
        case "step":
            return {"ms": contender.step(asked["window"])}
        case "finish":
            outputs = contender.finish()
            return {"outputs": {name: [str(f) for f in files] for name, files in outputs.items()}}
    raise AssertionError(f"no such request: {asked}")


def serve(order: Mapping[str, Any], replies: IO[str]) -> None:
    """Answer until the input ends; stop everything whatever happens."""
    from pipelines.spark.session import close_session, open_session

    def say(line: Mapping[str, Any]) -> None:
        replies.write(json.dumps(line) + "\n")
        replies.flush()

    folder = Path(order["folder"])
    session = open_session(folder / "spark")
    try:
        contender = open_contender(
            order["contender"], session, folder, Workload(**order["workload"])
        )
        try:
            say({"ready": True})
            for line in sys.stdin:
                say(answer(contender, json.loads(line)))
        finally:
            contender.close()
    finally:
        close_session(session)


def main() -> None:
    """Keep standard output for replies alone, whoever else prints."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        serve(json.loads(sys.argv[1]), replies)


if __name__ == "__main__":
    main()
