"""The Spark session of a driver: long-lived, local by default, quiet, in UTC, under ANSI rules.

One driver per participant and never a JVM per step: a JVM costs seconds, a small step tens of
milliseconds. Settings that could change a result are part of every plan's fingerprint.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Conflict, Unavailable
from pipelines.base.settings import SparkSettings, set_environment
from pipelines.spark.classes import reading
from pipelines.spark.java import check_memory, java_home, java_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEMANTIC_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    # It regroups sums, try_add too: a sum that does not overflow as it is written would.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ReorderAssociativeOperator"
    ),
    # `${env:HOME}` and `${name}` in a text would be replaced by what no plan records.
    "spark.sql.variable.substitute": "false",
}
"""Settings that give expressions their meaning: part of the plan."""

ENDS_S_MAX = 30.0
LOOPBACK = "127.0.0.1"
_WARNINGS = ("WARN", "NOTE", "OpenJDK 64-Bit Server VM warning", "Picked up ")
_LOG_BYTES_MAX, _ERRORS_LENGTH_MAX = 100_000, 300

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def engine_settings(directory: Path) -> Mapping[str, str]:
    """What of the engine enters a plan: versions of Spark and Java and the semantic settings.

    `directory` is where `open_session` will be told to work: the Java is the same.
    """
    import pyspark

    java = java_version(java_home(directory))
    return {"spark": pyspark.__version__, "java": java, **SEMANTIC_SETTINGS}


def open_session(
    directory: Path,
    *,
    cores: int | None = None,
    java_options: tuple[str, ...] | None = None,
    settings: SparkSettings | None = None,
) -> SparkSession:
    """A session whose scratch files and log are in `directory` (which is made).

    Its JVM reads an archive of Spark's classes, if one was made, unless other options are given.
    `settings` are those of the environment by default.

    Raises Conflict if this process has a Spark session already, Unavailable if Java or memory is
    missing or the JVM does not start, Refused for a master that is not valid.
    """
    settings = settings or SparkSettings.from_environment(may_be_local=True)
    _check_no_session()
    check_memory()
    cores = cores or len(os.sched_getaffinity(0))
    directory = directory.resolve()
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    (directory / "spark").mkdir(exist_ok=True)
    log = directory / "logs" / "spark.log"
    log4j = directory / "spark" / "log4j2.properties"
    log4j.write_text(_LOG4J.format(log=_escaped(log)))
    home = java_home(directory)
    options = reading(home) if java_options is None else java_options
    master = settings.master or f"local[{cores}]"
    is_here = is_of_this_machine(master)
    set_environment(
        {
            "JAVA_HOME": home,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(directory / "spark"),
            **({"SPARK_LOCAL_IP": LOOPBACK} if is_here else {}),
        }
    )
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName("medusa")
    conf.setAll([*SEMANTIC_SETTINGS.items(), *_working_settings(cores, log4j, options).items()])
    conf.set("spark.driver.memory", settings.driver_memory)
    conf.set("spark.medusa.engine", settings.engine)
    if is_here:
        # Spark would listen on an address of the network; on a cluster, executors need one.
        conf.set("spark.driver.host", LOOPBACK).set("spark.driver.bindAddress", LOOPBACK)
    if master.partition("[")[0] == "local":
        # Every user of the machine reaches the driver's port; Spark draws the secret itself.
        conf.set("spark.authenticate", "true")
    jvm_log, before_bytes = directory / "logs" / "jvm.log", 0
    launch: Callable[..., Any] = launch_gateway
    try:
        # What the JVM says of itself (that it incubates a module, say) is not for the user. It
        # leads a process group of its own: Ctrl-C reaches it through us, in order.
        with jvm_log.open("ab") as words:
            before_bytes = words.tell()
            popen = {"stdout": words, "stderr": words, "start_new_session": True}
            context: Any = _with_our_interrupt(
                lambda: SparkContext(conf=conf, gateway=launch(conf, popen))
            )
        # Its thread would print a trace when the JVM dies, which others report in a sentence.
        context._accumulatorServer.handle_error = lambda request, address: None
        session = SparkSession.builder.getOrCreate()
        if (cluster_cores := context.getConf().get("spark.cores.max", "")).isdecimal():
            # The driver's machine may have fewer cores than its part of the cluster.
            session.conf.set("spark.sql.shuffle.partitions", cluster_cores)
    except (PySparkRuntimeError, Py4JError, OSError) as error:
        reason = str(error).splitlines()[0]  # as long as there is a JVM to ask
        # The folder of a replay is removed when its command ends, and the file with it.
        if written := _errors_in(jvm_log, before_bytes):
            reason = f"{reason.rstrip('.')}; Java wrote: {written}"
        # Nothing of it may be taken over: the next try makes another.
        _forget_session()
        _end_gateway()
        raise Unavailable(
            f"Spark did not start ({reason}): see {jvm_log} and {log}, check that "
            "Java 17 or newer runs and that memory is free, then try again"
        ) from error
    return session


def is_of_this_machine(master: str) -> bool:
    """Whether the tasks of a master run on this machine, with its files."""
    return master.startswith("local") or f"//{LOOPBACK}:" in master


def _errors_in(jvm_log: Path, from_byte: int) -> str:
    """What a JVM has written but for warnings, as one line; the cause is not in a fixed line."""
    with suppress(OSError), jvm_log.open("rb") as file:
        file.seek(from_byte)
        lines = file.read(_LOG_BYTES_MAX).decode(errors="replace").splitlines()
        errors = [line.strip() for line in lines if not line.startswith(_WARNINGS)]
        return ", ".join(filter(None, errors))[:_ERRORS_LENGTH_MAX]
    return ""


def _check_no_session() -> None:
    """A process has one session. A second opener would share it and close it for both, and one
    that others made may lack the settings that give expressions their meaning."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise Conflict(
            "this process has a Spark session already: stop it, or call Medusa in another process"
        )


def _with_our_interrupt(make: Callable[[], Any]) -> Any:
    """What is made, Ctrl-C answered as before: Spark's own handler would let a second one interrupt
    the clean-up of the first."""
    if threading.current_thread() is not threading.main_thread():
        return make()  # Only there are handlers set, by Spark too.
    handler = signal.getsignal(signal.SIGINT)
    try:
        return make()
    finally:
        signal.signal(signal.SIGINT, handler)


def _escaped(path: Path) -> str:
    """A path as the value of a Java property."""
    return str(path).replace("\\", "\\\\")


def _quoted(option: str) -> str:
    """An option as one word of a line of options, as Spark parts it."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_COMPILED_LATER = 30
"""How many times as often as by default a method is called, or a loop turns, before it is compiled
for speed. A driver's first minute is code that runs a few thousand times: compiling it took more
CPU than it saved."""

_JAVA_OPTIONS = (
    f"-XX:Tier4InvocationThreshold={_COMPILED_LATER * 5_000}",
    f"-XX:Tier4MinInvocationThreshold={_COMPILED_LATER * 600}",
    f"-XX:Tier4CompileThreshold={_COMPILED_LATER * 15_000}",
    f"-XX:Tier4BackEdgeThreshold={_COMPILED_LATER * 40_000}",
)


def _working_settings(cores: int, log4j: Path, java_options: tuple[str, ...]) -> dict[str, str]:
    """Settings that change speed and noise, never a result."""
    java_options = (
        f"-Dlog4j2.configurationFile={log4j.as_uri()}", *_JAVA_OPTIONS, *java_options,
    )  # fmt: skip
    return {
        "spark.medusa.scratch": str(log4j.parent),
        "spark.driver.extraJavaOptions": " ".join(map(_quoted, java_options)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.scheduler.mode": "FAIR",
        "spark.speculation": "false",
        # Small steps: adaptive plans and more partitions than cores cost more than they give.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        "spark.sql.files.openCostInBytes": "65536",
        # Dictionaries of a file take -0.0 for another value than 0.0, and its statistics leave out
        # NaN, the largest number: either would skip records that fulfil a predicate.
        "spark.sql.parquet.filterPushdown": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A set per group beats sorting; the fallback would begin at 128 groups.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    }


def close_session(session: SparkSession, *, ends_s_max: float = ENDS_S_MAX) -> None:
    """Stop Spark and the JVM under it, and wait until the JVM is gone; it may be so already."""
    from py4j.protocol import Py4JError

    try:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            session.stop()
    except (Py4JError, ConnectionError):
        _forget_session()
    _end_gateway(ends_s_max)


def _end_gateway(ends_s_max: float = ENDS_S_MAX) -> None:
    """End the JVM of this process, if there is one, and wait until it is gone."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if process is not None:
        # The JVM ends when its input does; it must not outlive the command that started it.
        process.stdin.close()
        process.wait(timeout=ends_s_max)


def _forget_session() -> None:
    """What stopping a session does in Python, without the JVM: another may then be opened."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.context import SQLContext

    context: Any = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None
        server, context._accumulatorServer = context._accumulatorServer, None
        if server is not None:
            server.shutdown()
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
