"""A checked query: what `biclique run`, `validate`, `explain` and the operator agree on. Frozen values, no behaviour.

`compile_manifest` (query/compile.py) is the only maker of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from biclique.query.expression import Expression
from biclique.query.types import Type


class OnBadRecord(Enum):
    DEAD_LETTER = "deadLetter"
    DROP = "drop"
    FAIL = "fail"


class Format(Enum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Files:
    path: str  # absolute, or relative to the manifest's folder (see Manifest.folder)
    format: Format


@dataclass(frozen=True, slots=True)
class Kafka:
    bootstrap_servers: str
    topic: str
    format: Format
    starting_offsets: str = "earliest"  # or latest, or an ISO 8601 timestamp
    secret: str | None = None  # the name of the Secret with SASL and TLS settings


@dataclass(frozen=True, slots=True)
class EventTime:
    column: int | None  # position in the source's fields; None: the record's own time
    lateness_us: int = 0
    future_skew_max_us: int = 300_000_000
    idle_after_us: int = 5_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """None in both: full history. Exactly one otherwise. A pair qualifies when newer - older <= time_us; with `tuples`
    when the older, by stamp, is among the last so many of its relation before the newer."""

    time_us: int | None = None
    tuples: int | None = None


@dataclass(frozen=True, slots=True)
class BadRecordBurst:
    """So many bad records within a minute that are at least this share of all: the source pauses."""

    count: int = 1000
    share: float = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    fields: tuple[Field, ...]
    event_time: EventTime
    input: Files | Kafka
    on_bad_record: OnBadRecord
    bad_record_burst: BadRecordBurst = BadRecordBurst()


@dataclass(frozen=True, slots=True)
class Relation:
    """A source as it stands in FROM: a self-join makes two relations of one source."""

    name: str  # the alias
    source: int  # position in Query.sources
    window: Window


class AggregateFunction(Enum):
    COUNT = "count"  # of rows (argument None) or of non-null values
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COUNT_DISTINCT = "count_distinct"


@dataclass(frozen=True, slots=True)
class Aggregate:
    function: AggregateFunction
    argument: Expression | None
    type: Type  # SUM of integers: BIGINT; of DECIMAL(p,s): DECIMAL(18,s); AVG: DOUBLE


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A select item that is the n-th GROUP BY expression; with n = len(group_by) the start of the TUMBLE's span."""

    position: int
    type: Type


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result. `value` is an Aggregate or GroupKey in an aggregating query, an Expression in others."""

    name: str
    value: Expression | Aggregate | GroupKey
    type: Type


class Delivery(Enum):
    EXACTLY_ONCE = "exactlyOnce"
    AT_LEAST_ONCE = "atLeastOnce"


@dataclass(frozen=True, slots=True)
class PlanHints:
    """`spec.plan` as the user wrote it; None: the planner decides."""

    strategy: str | None = None  # biclique, hash, random, matrix
    subgroups: tuple[tuple[str, int], ...] = ()  # relation name, count
    units: int = 1  # joiners.replicas: units of each subgroup
    transport: str = "auto"
    memory_bytes: int = 2 << 30  # joiners.memory, of one unit
    dispatchers_bytes: int = 1 << 30  # tiers.memory, of all pods of the tier
    mergers_bytes: int = 1 << 30
    partitions: int = 4  # topics.partitions: P, the number of dispatchers
    # By tier: tiers.executors, or its own.
    executors: tuple[tuple[str, int], ...] = (("shuffler", 1), ("dispatcher", 1), ("merger", 1), ("joiner", 1))


@dataclass(frozen=True, slots=True)
class Redis:
    url: str  # without a password: that is in the Secret
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    name: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Volume:
    claim: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    sources: tuple[Source, ...]
    relations: tuple[Relation, ...]  # 2 to 5, in FROM order
    filters: tuple[tuple[Expression, ...], ...]  # for each relation: conjuncts over it alone
    predicates: tuple[Expression, ...]  # conjuncts over two or more relations (or none: literals)
    items: tuple[Item, ...]
    distinct: bool
    group_by: tuple[Expression, ...]
    aggregating: bool  # any Aggregate in items (group_by may be empty: one group)
    tumble_us: int | None  # GROUP BY …, TUMBLE(n)
    delivery: Delivery
    output: Files | Kafka
    hints: PlanHints
    redis: Redis | None = None  # where checkpoints go, if not to `durable`
    durable: Bucket | Volume | None = None
    replication: int | None = None  # of the topics that are made; None: as many as is sensible
    create_output: bool = False  # where the output topic is missing

    @property
    def counted(self) -> tuple[int, ...]:
        """The relations whose windows count tuples: blocks carry ordinals of these, and signals their totals."""
        return tuple(n for n, relation in enumerate(self.relations) if relation.window.tuples is not None)

    def type_of(self, relation: int, field: int) -> Type:
        return self.sources[self.relations[relation].source].fields[field].type
