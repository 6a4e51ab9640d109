"""`format("medusa")`: any Spark program reads Medusa's streams.

One line, `register(spark)`, in a session that need not know of Medusa otherwise. Where the home is
and how to log in stand in the environment, never in an option, a plan or a checkpoint.
"""

from pipelines.datasource.source import FORMAT, MedusaSource, register

__all__ = ["FORMAT", "MedusaSource", "register"]
