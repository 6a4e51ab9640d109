"""Certificates and the history of lines as Postgres answers them."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import RowMapping

from medusa_core.certificates import Certificate, LineEvent, Suite
from medusa_core.grid import Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Stability
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.postgres.rows import producer_of
from pipelines.catalog.reading_roles import Certificates


def certificate_document(certificate: Certificate) -> str:
    """What `medusa.record_certificate` takes."""
    document: dict[str, Any] = {
        "stream": certificate.stream,
        "participant": certificate.producer.participant,
        "replica": certificate.producer.replica,
        "version": certificate.version,
        "suite": certificate.suite.value,
        "law": certificate.law,
        "from_us": certificate.range.from_us,
        "to_us": certificate.range.to_us,
        "passed": certificate.passed,
        "figures": dict(certificate.figures),
        "engines": dict(certificate.engines),
        "quarantined": certificate.quarantined,
    }
    return json.dumps(document, allow_nan=False)


def certificate_of(row: RowMapping) -> Certificate:
    """A certificate as it was written down."""
    return Certificate(
        stream=StreamName(row["stream"]),
        producer=producer_of(row),
        version=Version(row["version"]),
        suite=Suite(row["suite"]),
        range=Range(row["from_us"], row["to_us"]),
        passed=row["passed"],
        figures=row["figures"],
        engines=row["engines"],
        quarantined=row["quarantined"],
        number=row["number"],
        certified_at_ms=row["certified_at_ms"],
    )


def event_of(row: RowMapping) -> LineEvent:
    """A row that a line has or had."""
    end = row["end_version"]
    return LineEvent(
        range=Range(row["from_us"], row["to_us"]),
        stability=Stability(row["stability"]),
        begin_version=Version(row["begin_version"]),
        end_version=None if end is None else Version(end),
        committed_at_ms=row["committed_at_ms"],
        inputs_at_ms=row["inputs_at_ms"],
        age_ms=row["age_ms"],
        missing=tuple(StreamName(name) for name in row["missing"]),
        rows=row["rows"],
    )


class PostgresCertificates(HomeDatabase, Certificates):
    """Certificates of lines."""

    def record_certificate(self, certificate: Certificate) -> int:
        """See `Certificates.record_certificate`."""
        document = certificate_document(certificate)
        return int(self._value("record_certificate", request=document))

    def certificates(self, stream: StreamName | None = None, *,
                     limit: int | None = None) -> tuple[Certificate, ...]:  # fmt: skip
        """See `Certificates.certificates`."""
        found = self._rows("certificates", stream=stream, limit=limit)
        return tuple(certificate_of(row) for row in found)
