"""From the text of a manifest to a checked Query: the same for `run`, `validate`, `explain` and the operator.

Either a Query comes out, or a QueryError with one sentence that names the place and the remedy; nothing else is
raised, whatever the text is. Nothing is read from outside: a host that has the files passes `exists`, and gets a
sentence about an input path that leads nowhere.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from biclique.query.document import Document, Path, read_document
from biclique.query.errors import QueryError
from biclique.query.manifest import FilesSpec, KafkaInputSpec, KafkaOutputSpec, Manifest, SourceSpec, validated
from biclique.query.model import (
    BadRecordBurst,
    Bucket,
    Delivery,
    EventTime,
    Field,
    Files,
    Format,
    Kafka,
    OnBadRecord,
    PlanHints,
    Query,
    Redis,
    Relation,
    Source,
    Volume,
    Window,
)
from biclique.query.schema import SchemaError, parse_schema
from biclique.query.scope import nearest
from biclique.query.sql import Checked, check_sql
from biclique.query.types import TIMESTAMP


def has_password(url: str) -> bool:
    """Where a manifest, or a setting, would show it to whoever reads it."""
    user = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    return ":" in user or "password=" in url


def compile_manifest(text: str, folder: str = ".", exists: Callable[[str], bool] | None = None) -> Query:
    """`folder`: that of the manifest's file; relative paths of the Query are joined with it."""
    document = read_document(text)
    return _Compiler(document, validated(document, folder), exists).query()


class _Compiler:
    def __init__(self, document: Document, manifest: Manifest, exists: Callable[[str], bool] | None) -> None:
        self._document, self._manifest, self._spec, self._exists = document, manifest, manifest.spec, exists

    def query(self) -> Query:
        sources = tuple(self._source(position, source) for position, source in enumerate(self._spec.sources))
        self._refuse_twins()
        checked = check_sql(self._spec.sql, [(source.name, source.fields) for source in sources])
        self._refuse_unused(checked)
        relations = self._relations(checked)
        self._refuse_own_output(sources)
        self._check_times(checked, sources, relations)
        spec = self._spec
        return Query(
            name=self._manifest.metadata.name,
            sources=sources,
            relations=relations,
            filters=checked.filters,
            predicates=checked.predicates,
            items=checked.items,
            distinct=checked.distinct,
            group_by=checked.group_by,
            aggregating=checked.aggregating,
            tumble_us=checked.tumble_us,
            delivery=Delivery(spec.delivery),
            output=self._endpoint(spec.output.files, spec.output.kafka),
            hints=PlanHints(
                strategy=spec.plan.strategy,
                subgroups=self._subgroups(relations),
                units=spec.joiners.replicas,
                transport=spec.plan.transport,
                memory_bytes=spec.joiners.memory,
                dispatchers_bytes=spec.tiers.memory_of(spec.tiers.dispatcher),
                mergers_bytes=spec.tiers.memory_of(spec.tiers.merger),
                partitions=spec.topics.partitions,
                executors=spec.tiers.executors_by_tier(),
            ),
            redis=self._redis(),
            durable=self._durable(),
            replication=spec.topics.replication,
            create_output=spec.topics.create_output,
        )

    def _redis(self) -> Redis | None:
        spec = self._spec.state.redis
        if spec is None:
            return None
        if has_password(spec.url):
            where = ("spec", "state", "redis", "url")
            raise self._document.error(where, "a password stands in it", "put it into a Secret, and name that")
        return Redis(spec.url, spec.secret_ref.name)

    def _durable(self) -> Bucket | Volume | None:
        durable = self._spec.state.durable
        if durable.volume is not None:
            return Volume(durable.volume.claim_name, durable.volume.path)
        if (s3 := durable.s3) is None:
            return None
        return Bucket(s3.bucket, s3.prefix, s3.endpoint, s3.region, s3.secret_ref.name)

    # --- sources -----------------------------------------------------------------------------------------------------

    def _source(self, position: int, spec: SourceSpec) -> Source:
        path: Path = ("spec", "sources", position)
        try:
            fields = parse_schema(spec.schema_)
        except SchemaError as error:
            problem, remedy = error.problem, error.remedy
        else:
            self._check_exists((*path, "files", "path"), spec.files)
            return Source(
                spec.name,
                fields,
                self._event_time(path, spec, fields),
                self._endpoint(spec.files, spec.kafka),
                OnBadRecord(spec.on_bad_record),
                BadRecordBurst(spec.bad_record_burst.count, spec.bad_record_burst.share),
            )
        raise self._document.error((*path, "schema"), problem, remedy)

    def _event_time(self, path: Path, spec: SourceSpec, fields: tuple[Field, ...]) -> EventTime:
        time = spec.event_time
        column: int | None = None
        if time.column is not None:
            where: Path = (*path, "eventTime", "column")
            names = [field.name.casefold() for field in fields]
            if time.column.casefold() not in names:
                known = [field.name for field in fields]
                raise self._document.error(
                    where, f"there is no column {time.column[:40]}", nearest(time.column, known, "columns")
                )
            column = names.index(time.column.casefold())
            if fields[column].type != TIMESTAMP:
                problem = f"the event time {fields[column].name} is {fields[column].type}, not TIMESTAMP"
                raise self._document.error(where, problem, "declare the column as TIMESTAMP")
        return EventTime(column, time.lateness, time.max_future_skew, time.idle_after)

    def _endpoint(self, files: FilesSpec | None, kafka: KafkaInputSpec | KafkaOutputSpec | None) -> Files | Kafka:
        if files is not None:
            return Files(self._located(files.path), Format(files.format))
        assert kafka is not None, "the manifest's model lets exactly one through"
        offsets = kafka.starting_offsets if isinstance(kafka, KafkaInputSpec) else "earliest"
        return Kafka(kafka.bootstrap_servers, kafka.topic, Format(kafka.format), offsets, kafka.secret_ref.name)

    def _located(self, path: str) -> str:
        folder = self._manifest.folder
        return path if folder in {"", "."} else posixpath.join(folder, path)

    def _check_exists(self, path: Path, files: FilesSpec | None) -> None:
        if files is not None and self._exists is not None and not self._exists(self._located(files.path)):
            problem = f"there is no file or folder {self._located(files.path)}"
            raise self._document.error(path, problem, "correct the path, which is relative to the manifest's folder")

    def _refuse_own_output(self, sources: tuple[Source, ...]) -> None:
        """A query that reads the folder it writes would join its own results."""
        if self._spec.output.files is None:
            return
        written = posixpath.normpath(self._located(self._spec.output.files.path))
        for source in sources:
            if isinstance(source.input, Files) and _is_inside(written, posixpath.normpath(source.input.path)):
                problem = f"the output is in the folder of the source {source.name}"
                raise self._document.error(("spec", "output", "files", "path"), problem, "write to another folder")

    def _refuse_twins(self) -> None:
        seen: set[str] = set()
        for position, source in enumerate(self._spec.sources):
            if source.name.casefold() in seen:
                path = ("spec", "sources", position, "name")
                raise self._document.error(
                    path, f"the source {source.name} stands twice", "rename one, or use an alias in the SQL"
                )
            seen.add(source.name.casefold())

    def _refuse_unused(self, checked: Checked) -> None:
        used = {source for _, source in checked.relations}
        for position, source in enumerate(self._spec.sources):
            if position not in used:
                path = ("spec", "sources", position, "name")
                raise self._document.error(
                    path, f"the SQL does not use the source {source.name}", "join it, or remove it"
                )

    # --- windows and times -------------------------------------------------------------------------------------------

    def _relations(self, checked: Checked) -> tuple[Relation, ...]:
        relations: list[Relation] = []
        for name, source in checked.relations:
            own = self._spec.sources[source].window
            window = Window(time_us=checked.within_us) if own is None else Window(own.time, own.tuples)
            relations.append(Relation(name, source, window))
        self._check_count_windows(relations)
        if len(relations) > 2 and len({relation.window for relation in relations}) > 1:
            source = next(i for i, spec in enumerate(self._spec.sources) if spec.window is not None)
            raise self._document.error(
                ("spec", "sources", source, "window"),
                f"the windows of a join of {len(relations)} relations differ",
                "give every source the same window, or write WITHIN alone",
            )
        return tuple(relations)

    def _check_count_windows(self, relations: list[Relation]) -> None:
        """A partial result of several tuples has no place among the tuples of one relation; and of two kinds of window
        each would have its own word for which of two tuples is the older."""
        counted = next((relation for relation in relations if relation.window.tuples is not None), None)
        if counted is None:
            return
        path = ("spec", "sources", counted.source, "window", "tuples")
        if len(relations) > 2:
            problem = f"a window of a number of tuples joins two relations, and this query has {len(relations)}"
            raise self._document.error(path, problem, "write time: 10m")
        timed = next((relation for relation in relations if relation.window.time_us is not None), None)
        if timed is not None:
            names = [self._spec.sources[relation.source].name for relation in (counted, timed)]
            problem = f"the window of {names[0]} is a number of tuples, and that of {names[1]} is a time"
            raise self._document.error(path, problem, "give every source the same kind of window, and leave WITHIN out")

    def _check_times(self, checked: Checked, sources: tuple[Source, ...], relations: tuple[Relation, ...]) -> None:
        """Rows of a file have no time of their own: where the query needs one, a column must hold it."""
        windowed = checked.tumble_us is not None or any(relation.window.time_us is not None for relation in relations)
        for position, source in enumerate(sources):
            if windowed and source.event_time.column is None and isinstance(source.input, Files):
                problem = f"the query has a window, and the rows of {source.name} have no time"
                path = ("spec", "sources", position, "eventTime")
                raise self._document.error(path, problem, "name a TIMESTAMP column: eventTime: {column: ...}")

    # --- hints -------------------------------------------------------------------------------------------------------

    def _subgroups(self, relations: tuple[Relation, ...]) -> tuple[tuple[str, int], ...]:
        """Counts by relation; a source's name stands for all relations that are made of it."""
        counts: dict[str, int] = {}
        for name, count in self._spec.plan.subgroups.items():
            named = [relation.name for relation in relations if relation.name == name]
            named = named or [r.name for r in relations if self._spec.sources[r.source].name == name]
            if not named:
                known = [self._spec.sources[relation.source].name for relation in relations]
                path = ("spec", "plan", "subgroups", name)
                raise self._document.error(path, f"there is no relation {name[:40]}", nearest(name, known, "relations"))
            for relation in named:
                counts[relation] = count
        return tuple((relation.name, counts[relation.name]) for relation in relations if relation.name in counts)


def _is_inside(path: str, folder: str) -> bool:
    if folder == ".":
        return not path.startswith(("/", "../")) and path != ".."
    return path == folder or path.startswith(folder.rstrip("/") + "/")


__all__ = ["QueryError", "compile_manifest"]
