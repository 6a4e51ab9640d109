"""A stream's columns as Spark's: event time first, then those declared, then the marks.

A schema that the user gives chooses among them: other columns are not read from the files. Types
are exact on both sides, so a chosen column has its own type or is refused.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from medusa_core.columns import decimal_shape
from medusa_core.errors import Refused
from medusa_core.suggest import did_you_mean
from pipelines.datasource.stream_snapshot import StreamSnapshot
from pipelines.storage.stable_rows import EVENT_TIME

STABILITY, MISSING, REVISION = "_stability", "_missing", "_revision"
"""The marks of a row where tentative ones are read too: what its segment promises, the names of the
inputs that were not there, and the generation of the revision that made it, if one did. No declared
column has a name like these."""

_TYPES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}


def schema_of(line: StreamSnapshot, *, with_marks: bool) -> StructType:
    """All columns of a stream; every one may be NULL, as in any schema of files."""
    fields = [StructField(EVENT_TIME, TimestampType())]
    fields += [StructField(column.name, spark_type(column.type)) for column in line.declared]
    if with_marks:
        fields += [
            StructField(STABILITY, StringType()),
            StructField(MISSING, ArrayType(StringType())),
            StructField(REVISION, LongType()),
        ]
    return StructType(fields)


def spark_type(type_: str) -> DataType:
    """The type of a declared column."""
    return _TYPES[type_] if type_ in _TYPES else DecimalType(*decimal_shape(type_))


def check_schema(line: StreamSnapshot, given: StructType, *, with_marks: bool) -> None:
    """Raise Refused, naming the column, if a given schema has what the stream has not."""
    if not given.fields:
        raise Refused(f"the schema given for {line.stream} has no column: name at least one")
    known = {field.name: field.dataType for field in schema_of(line, with_marks=with_marks)}
    for field in given:
        if field.name not in known:
            hint = did_you_mean(field.name, known, f"it has {', '.join(known)}")
            raise Refused(f"stream {line.stream} has no column {field.name[:100]!r}: {hint}")
        if field.dataType != known[field.name]:
            raise Refused(
                f"column {field.name} of stream {line.stream} is "
                f"{known[field.name].simpleString()}, not {field.dataType.simpleString()}: give "
                "it its own type and cast it afterwards"
            )
