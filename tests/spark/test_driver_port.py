"""The port of a driver's JVM: other programs of the machine reach it, and may not command it."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


def connect_without_the_secret(spark: SparkSession) -> None:
    """Look up the endpoint that stops a local driver's executor, as a program of its own would."""
    jvm: Any = spark._jvm
    context = spark.sparkContext
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.rpc.numRetries", "1")
    conf = conf.set("spark.authenticate", "false").set("spark.rpc.lookupTimeout", "5s")
    entry = getattr(jvm.org.apache.spark.internal.config, "package$")
    secret_file = getattr(entry, "MODULE$").AUTH_SECRET_FILE()
    manager = jvm.org.apache.spark.SecurityManager(conf, jvm.scala.Option.empty(), secret_file)
    stranger = jvm.org.apache.spark.rpc.RpcEnv.create(
        "stranger", "127.0.0.1", "127.0.0.1", 0, conf, manager, 0, True
    )
    try:
        driver = jvm.org.apache.spark.rpc.RpcAddress(
            context.getConf().get("spark.driver.host"),
            int(context.getConf().get("spark.driver.port")),
        )
        stranger.setupEndpointRef(driver, "LocalSchedulerBackendEndpoint")
    finally:
        stranger.shutdown()


def test_a_driver_obeys_no_program_that_does_not_know_its_secret(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError):
        connect_without_the_secret(spark)
    assert spark.range(3).count() == 3
