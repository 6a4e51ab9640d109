"""What homes read of each other, in Postgres: imported lines and the readers of this home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.commits import CommitResult, Hold, Lease
from medusa_core.divergence import Divergence
from medusa_core.exchange import ImportStatus, LineNews
from medusa_core.imports import ChosenRows, ImportKnowledge
from medusa_core.knowledge import Limits
from medusa_core.line_revisions import NO_REACH, RevisionReach
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.protocol.introductions import Introduction
from medusa_core.segments import Producer
from pipelines.catalog import import_rows as imported
from pipelines.catalog.partner_records import KnownPartner, LinkReport, LinkSide, PartnerLinks
from pipelines.catalog.postgres import choices, many, rows
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.deployments import segment_answers
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.postgres.introduction_values import introduction_values
from pipelines.catalog.postgres.link_rows import partner_links, reports_document
from pipelines.catalog.postgres.news import import_document, news_of
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.processing_roles import Imports, Readers


class PostgresExchange(HomeDatabase, Imports, Readers):
    """Imports of this home, and the readers of its streams."""

    def imports(self) -> tuple[ImportStatus, ...]:
        """See `Imports.imports`."""
        return tuple(
            ImportStatus(
                stream=StreamName(row["stream"]),
                producer=rows.producer_of(row),
                version=Version(row["last_version"]),
                boundary_us=row["boundary_us"],
                reader=Producer(self._participant, row["own_replica"]),
                epoch=Epoch(row["epoch"]),
                plan=PlanId(row["plan"]),
                tentative_us=row["tentative_us"],
                disputed_us=row["disputed_us"],
                chain=row["chain"],
                read_at_ms=row["read_at_ms"],
            )
            for row in self._rows("imports", participant=self._participant)
        )

    def partner_addresses(self) -> Mapping[Participant, KnownPartner]:
        """The partners of this home, each with its key and, if it is elsewhere, its address."""
        return {
            Participant(row["participant"]): KnownPartner(
                public_key=bytes(row["public_key"]), url=row["url"], pin=row["pin"]
            )
            for row in self._rows("partner_addresses")
        }

    def last_news_ms(self) -> Mapping[Participant, int]:
        """When the last news of each partner came, by this home's clock."""
        return {
            Participant(row["participant"]): int(row["came_at_ms"])
            for row in self._rows("last_news")
        }

    def granted_to(self, partner: Participant) -> tuple[StreamName, ...]:
        """The streams of this home that a partner may read, in order of their names."""
        return tuple(StreamName(row["stream"]) for row in self._rows("granted_to", partner=partner))

    def links(self) -> tuple[PartnerLinks, ...]:
        """The links with the partners of this home, in order of their names."""
        return partner_links(self._rows("links"))

    def report_links(self, reports: Sequence[LinkReport]) -> None:
        """Add what a driver has counted of the requests that it makes."""
        self._value(
            "report_links",
            committing=True,
            side=LinkSide.CLIENT.value,
            reports=reports_document(reports),
        )

    def note_introduction(self, known_key: bytes, introduction: Introduction) -> None:
        """Store what a partner has signed with its known key; see `OwnIdentity.introduction`."""
        self._value(
            "note_introduction",
            committing=True,
            known_key=known_key,
            **introduction_values(introduction),
        )

    def import_line(self, lease: Lease, news: LineNews, plan: PlanId,
                    reach: RevisionReach = NO_REACH) -> bool:  # fmt: skip
        """See `Imports.import_line`: the numbers are in `medusa.import_line`."""
        request = import_document(many.lease_fields(lease), news, plan, reach)
        return bool(self._value("import_line", committing=True, request=request))

    def read_imports(self, limits: Limits) -> tuple[ImportKnowledge, ...]:
        """See `Imports.read_imports`: two strides in one snapshot, one where nothing is new."""
        found: list[ImportKnowledge] = []
        with errors_of_catalog(), self._snapshot() as connection:
            values = {
                "participant": self._participant,
                "segments_max": limits.buckets_per_step_max,
            }
            document = connection.execute(query("knowledge_imports"), values).scalar_one()
            for known, ids in choices.imports_of(document, self._participant):
                rows_requests = list(imported.rows_requested(known, ids))
                requests = [one.request for one in rows_requests]
                answers = segment_answers(connection, requests, imported.limits_of(limits))
                pairs = [(w, a) for w, (_, a) in zip(rows_requests, answers, strict=True)]
                found.append(imported.with_rows(known, pairs))
        return tuple(found)

    def commit_choice(self, lease: Lease, chosen: ChosenRows) -> CommitResult | None:
        """See `Imports.commit_choice`: the numbers are in `medusa.commit_choice`."""
        request = choices.choice_document(lease, chosen)
        answer = self._value("commit_choice", committing=True, request=request)
        return None if answer is None else CommitResult(**answer)

    def divergences(self, stream: StreamName | None = None) -> tuple[Divergence, ...]:
        """See `Imports.divergences`."""
        return tuple(choices.divergence_of(row) for row in self._rows("divergences", stream=stream))

    def disputed(self) -> Mapping[StreamName, int]:
        """See `Imports.disputed`."""
        return {row["stream"]: row["from_us"] for row in self._rows("disputed")}

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Readers.line_news`."""
        document = self._value(
            "line_news",
            **rows.line_fields(stream, producer),
            after=after,
            segments_max=segments_max,
        )
        return news_of(document, stream, producer, after)

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0, *, replica: int = 0,
                    version: Version | None = None) -> None:  # fmt: skip
        """See `Readers.acknowledge`."""
        self._value(
            "acknowledge",
            stream=stream,
            reader=reader,
            through_us=through_us,
            limit_ms=limit_ms,
            path_ms=path_ms,
            replica=replica,
            version=version,
        )

    def place_hold(self, hold: Hold) -> None:
        """See `Readers.place_hold`."""
        self._value(
            "place_hold",
            stream=hold.stream,
            holder=hold.holder,
            purpose=hold.purpose,
            from_us=hold.from_us,
            limit_ms=hold.limit_ms,
        )

    def release_hold(self, stream: StreamName, holder: str, purpose: str) -> None:
        """See `Readers.release_hold`."""
        self._value("release_hold", stream=stream, holder=holder, purpose=purpose)

    def holds(self, stream: StreamName) -> tuple[Hold, ...]:
        """See `Readers.holds`."""
        return tuple(Hold(**row) for row in self._rows("holds", stream=stream))
