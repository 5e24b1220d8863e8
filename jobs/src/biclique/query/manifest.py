"""The JoinQuery manifest as frozen models: every key of a manifest, its default and its range. The CRD is made from
these.

Names are as in the manifest (camelCase there, snake_case here); the sentence below a key is what docs/manifest.md says
of it. Quantities are held as whole numbers: microseconds, bytes, thousandths of a processor. What a model cannot say
(SQL against schemas, windows) is compile.py's affair.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from biclique.query.complaints import complaint_of
from biclique.query.document import Document, read_document
from biclique.query.moments import microseconds_of
from biclique.query.quantities import Cpu, Duration, Memory

SOURCES_MAX = 5
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
INSIDE = r"^([^/.][^/]{0,254}(/[^/.][^/]{0,254}){0,15})?$"  # no way out of a folder, and nothing hidden in it
ADDED_BY_KUBERNETES = frozenset(
    {"uid", "resourceVersion", "generation", "generateName", "creationTimestamp", "deletionTimestamp", "selfLink"}
    | {"deletionGracePeriodSeconds", "finalizers", "managedFields", "ownerReferences"}
)
TOPIC = r"^[a-zA-Z0-9._-]{1,249}$"

Count = Annotated[StrictInt, Field(ge=1, le=1000)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=4096)]
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
BlockT = TypeVar("BlockT", bound="Block")


def _exactly_one(block: BlockT, first: str, second: str) -> BlockT:
    given = [name for name in (first, second) if getattr(block, name) is not None]
    if len(given) == 2:
        raise ValueError(f"has both {first} and {second}; keep one")
    if not given:
        raise ValueError(f"has neither {first} nor {second}; give one of them")
    return block


def _starting_offsets(text: str) -> str:
    if text not in {"earliest", "latest"} and microseconds_of(text) is None:
        raise ValueError("is no place to start; write earliest, latest or a time such as 2026-03-01T00:00:00Z")
    return text


class Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=False)


class Metadata(Block):
    """Kubernetes owns this block, and what it adds is taken as it is; of the rest only the name is ours."""

    name: Annotated[StrictStr, Field(pattern=DNS_LABEL)]
    """The query's name."""
    namespace: StrictStr | None = None
    """Kubernetes' own: where the query lives."""
    labels: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    """Kubernetes' own: by which objects are selected."""
    annotations: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    """Kubernetes' own: whatever else is noted."""

    @model_validator(mode="before")
    @classmethod
    def _without_what_kubernetes_adds(cls, written: object) -> object:
        if not isinstance(written, dict):
            return written
        return {key: value for key, value in written.items() if key not in ADDED_BY_KUBERNETES}


class SecretRef(Block):
    """A Secret in the query's namespace; absent or `{}`: none."""

    name: Annotated[StrictStr, Field(pattern=DNS_LABEL)] | None = None
    """The Secret's name."""


class EventTimeSpec(Block):
    column: Text | None = None
    """The TIMESTAMP column that says when a row happened. Absent: the record's own time, which rows of files lack."""
    lateness: Duration = 0
    """How far behind the greatest time so far a row may come; what is later is set aside, not joined."""
    max_future_skew: Duration = 300_000_000
    """A time further ahead of the clock than this is a bad record. For Kafka sources; a file may hold any time."""
    idle_after: Duration = 5_000_000
    """A source that has been quiet for so long no longer holds back the others' watermark."""


class WindowSpec(Block):
    time: Duration | None = None
    """Keep the tuples of so long, by event time."""
    tuples: Annotated[StrictInt, Field(ge=1, le=10**12)] | None = None
    """Keep the last so many tuples, by arrival. For two relations; see docs/sql.md."""

    @model_validator(mode="after")
    def _one(self) -> WindowSpec:
        return _exactly_one(self, "time", "tuples")


class FilesSpec(Block):
    path: Text
    """A file or a folder, relative to the manifest's own; a folder's files are read in the order of their names."""
    format: Literal["parquet", "csv", "json"] = "parquet"
    """CSV has a header and follows RFC 4180; JSON is one object a line."""


class KafkaSpec(Block):
    bootstrap_servers: Text
    """Brokers to begin with: host:port, with commas between."""
    topic: Annotated[StrictStr, Field(pattern=TOPIC)]
    """The topic to read, or to write."""
    secret_ref: SecretRef = SecretRef()
    """The Secret with SASL and TLS settings."""


class KafkaOutputSpec(KafkaSpec):
    format: Literal["json", "arrow"] = "json"
    """One JSON object a message, or Arrow IPC streams of many rows."""


class KafkaInputSpec(KafkaSpec):
    format: Literal["json", "csv", "arrow"] = "json"
    """A message is one JSON object; one CSV record, fields in the order of the schema; or an Arrow IPC stream of up to
    65,536 rows."""
    starting_offsets: Annotated[Text, AfterValidator(_starting_offsets)] = "earliest"
    """Where a new query begins: earliest, latest, or a time."""


class BadRecordBurstSpec(Block):
    count: Annotated[StrictInt, Field(ge=1, le=10**9)] = 1000
    """So many bad records within a minute make a burst,"""
    share: Share = 0.5
    """if they are at least this share of all records of the source in that minute."""


class SourceSpec(Block):
    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")]
    """The relation's name in the SQL."""
    schema_: Annotated[StrictStr, Field(alias="schema", min_length=1, max_length=65_536)]
    """Columns and their types, as in CREATE TABLE: name TYPE [NOT NULL], with commas between."""
    event_time: EventTimeSpec = EventTimeSpec()
    """When a row happened, and how long to wait for it."""
    window: WindowSpec | None = None
    """How long this source's tuples are kept for later partners; goes over WITHIN. Absent: as WITHIN says."""
    kafka: KafkaInputSpec | None = None
    """A topic to read. Exactly one of kafka and files."""
    files: FilesSpec | None = None
    """Files to read. Exactly one of kafka and files."""
    on_bad_record: Literal["deadLetter", "drop", "fail"] = "deadLetter"
    """What becomes of a record that does not fit the schema: set aside with its bytes and the reason, dropped, or the
    run stops. Each is counted."""
    bad_record_burst: BadRecordBurstSpec = BadRecordBurstSpec()
    """When so many records are bad that the source pauses until a person has looked: docs/data-plane.md."""

    @model_validator(mode="after")
    def _one(self) -> SourceSpec:
        return _exactly_one(self, "kafka", "files")


class PlanSpec(Block):
    strategy: Literal["biclique", "hash", "random", "matrix"] | None = None
    """How tuples are spread over units: chance within a subgroup that content picks (biclique), content alone (hash),
    chance alone (random), or copies along rows and columns (matrix). Absent: the planner chooses."""
    subgroups: dict[StrictStr, Count] = Field(default_factory=dict)
    """For each relation, how many subgroups its side has; a source's name stands for all relations made of it."""
    transport: Literal["auto", "tuples", "semijoin"] = "auto"
    """Whether whole tuples travel to the units, or keys first and the rest on a match (semijoin); auto chooses for each
    relation by what costs fewer bytes."""


class Toleration(Block):
    key: StrictStr | None = None
    """As Kubernetes has it."""
    operator: Literal["Exists", "Equal"] | None = None
    """As Kubernetes has it."""
    value: StrictStr | None = None
    """As Kubernetes has it."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """As Kubernetes has it."""
    toleration_seconds: StrictInt | None = None
    """As Kubernetes has it."""


class PodOverride(Block):
    """What a tier may set for its own pods; absent: as `tiers` says."""

    cpu: Cpu | None = None
    """Processors of a pod. Absent: as tiers says."""
    memory: Memory | None = None
    """Memory of a pod. Absent: as tiers says."""
    image: StrictStr | None = None
    """The container image. Absent: as tiers says."""
    node_selector: dict[StrictStr, StrictStr] | None = None
    """Labels of the nodes that may run the pods. Absent: as tiers says."""
    tolerations: tuple[Toleration, ...] | None = None
    """Taints that the pods tolerate. Absent: as tiers says."""


class TierOverride(PodOverride):
    executors: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    """Executor pods of this tier. Absent: as tiers says."""


class JoinersSpec(PodOverride):
    replicas: Count = 1
    """Units of each subgroup at the start; where the plan's subgroups are not given, of each side."""
    min_replicas: Count | None = None
    """As few units as scaling may leave. Absent: 1."""
    max_replicas: Count | None = None
    """As many units as scaling may start. Absent: replicas."""
    memory: Memory = 2 << 30
    """What one unit may hold: its state, what waits, and what it is about to send. Over Kafka a unit without room
    stands still until it has some. `biclique run` stops at a checkpoint once a unit's state has more, or that of all
    units with the blocks read ahead has more than all may."""

    @model_validator(mode="after")
    def _ordered(self) -> JoinersSpec:
        least, most = self.min_replicas or 1, self.max_replicas or max(self.replicas, self.min_replicas or 1)
        if not least <= self.replicas <= most:
            raise ValueError("does not have minReplicas <= replicas <= maxReplicas; put the three in order")
        return self


class TiersSpec(Block):
    executors: Annotated[StrictInt, Field(ge=0, le=1000)] = 1
    """Executor pods of each tier, of joiners one for each unit; with 0 units run in their driver."""
    cpu: Cpu = 250
    """Processors of a pod, for which a node is looked for; it may use more. Of a driver that has executors: 100m."""
    memory: Memory = 1 << 30
    """Memory of a pod. Its units share what the program leaves."""
    image: StrictStr = ""
    """The container image. Empty: the one of the installation."""
    node_selector: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    """Labels of the nodes that may run the pods."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that the pods tolerate."""
    shuffler: TierOverride = TierOverride()
    """What differs for the shuffler."""
    dispatcher: TierOverride = TierOverride()
    """What differs for the dispatchers."""
    merger: TierOverride = TierOverride()
    """What differs for the merger."""

    def memory_of(self, tier: TierOverride) -> int:
        """Of all its pods: with executors: 0 of the driver's, which runs its units."""
        return max(1, self._executors_of(tier)) * (self.memory if tier.memory is None else tier.memory)

    def executors_by_tier(self) -> tuple[tuple[str, int], ...]:
        """Joiners have no number of their own: with any, each unit has a pod."""
        own = (("shuffler", self.shuffler), ("dispatcher", self.dispatcher), ("merger", self.merger))
        return (*((name, self._executors_of(tier)) for name, tier in own), ("joiner", self.executors))

    def _executors_of(self, tier: TierOverride) -> int:
        return self.executors if tier.executors is None else tier.executors


class ScalingSpec(Block):
    policy: Literal["twoPhase", "none"] = "twoPhase"
    """Whether units come and go with the load; without a scaling block: none."""
    high: Share = 0.8
    """A load above which units are added."""
    low: Share = 0.3
    """A load below which units are taken away."""
    target: Share = 0.6
    """The load to come to."""
    period: Duration = 60_000_000
    """How often the load is looked at."""
    confirmations: Annotated[StrictInt, Field(ge=1, le=100)] = 3
    """So many looks in a row must agree."""
    drain_timeout: Duration = 600_000_000
    """How long a unit that leaves may take to hand over."""

    @model_validator(mode="after")
    def _ordered(self) -> ScalingSpec:
        if not self.low < self.target < self.high:
            raise ValueError("does not have low < target < high; put the three in order")
        if self.period == 0:
            raise ValueError("has a period of zero; write one such as 1m")
        return self


class RedisSpec(Block):
    url: Annotated[StrictStr, Field(pattern=r"^(rediss?|unix)://\S+$", max_length=4096)]
    """Where Redis is."""
    secret_ref: SecretRef = SecretRef()
    """The Secret with its password."""


class S3Spec(Block):
    bucket: Text
    """The bucket's name."""
    prefix: StrictStr = ""
    """What every object's name begins with."""
    endpoint: StrictStr | None = None
    """Of an S3-compatible store. Absent: Amazon's."""
    region: StrictStr | None = None
    """The bucket's region."""
    secret_ref: SecretRef = SecretRef()
    """The Secret with access keys."""


class VolumeSpec(Block):
    claim_name: Annotated[StrictStr, Field(pattern=DNS_SUBDOMAIN)]
    """The PersistentVolumeClaim, that all pods of the query write to: ReadWriteMany, where there are several nodes."""
    path: Annotated[StrictStr, Field(pattern=INSIDE)] = ""
    """A folder in it."""


class DurableSpec(Block):
    s3: S3Spec | None = None
    """An S3 bucket. At most one of s3 and volume."""
    volume: VolumeSpec | None = None
    """A volume. At most one of s3 and volume."""

    @model_validator(mode="after")
    def _at_most_one(self) -> DurableSpec:
        if self.s3 is not None and self.volume is not None:
            raise ValueError("has both s3 and volume; keep one")
        return self


class StateSpec(Block):
    redis: RedisSpec | None = None
    """Where checkpoints go; losing all of it costs time, never a result."""
    durable: DurableSpec = DurableSpec()
    """A store that is declared to lose nothing: with it, full history need not keep its whole log."""


class TopicsSpec(Block):
    # A stamp has 7 bits for the dispatcher.
    partitions: Annotated[StrictInt, Field(ge=1, le=128)] = 4
    """Partitions of the shuffled topic, which is the number of dispatchers; fixed for a query's life."""
    replication: Annotated[StrictInt, Field(ge=1, le=32)] | None = None
    """Copies that Kafka keeps of the topics that are made. Absent: 3, or as many as there are brokers."""
    create_output: StrictBool = False
    """Whether the output topic is made where it is missing."""


class OutputSpec(Block):
    kafka: KafkaOutputSpec | None = None
    """A topic to write. Exactly one of kafka and files."""
    files: FilesSpec | None = None
    """A folder to write. Exactly one of kafka and files."""

    @model_validator(mode="after")
    def _one(self) -> OutputSpec:
        return _exactly_one(self, "kafka", "files")


class Spec(Block):
    sources: Annotated[tuple[SourceSpec, ...], Field(min_length=1, max_length=SOURCES_MAX)]
    """What is joined, one to five of them; every one of them stands in the SQL."""
    sql: Annotated[StrictStr, Field(min_length=1)]
    """The query: docs/sql.md."""
    plan: PlanSpec = PlanSpec()
    """Hints to the planner, which fills in the rest."""
    joiners: JoinersSpec = JoinersSpec()
    """The units that store and probe."""
    tiers: TiersSpec = TiersSpec()
    """The pods of every tier; joiners and each tier may override."""
    scaling: ScalingSpec = ScalingSpec(policy="none")
    """When units are added and taken away. Absent: the number of units stays as it is."""
    state: StateSpec = StateSpec()
    """Where checkpoints are kept."""
    topics: TopicsSpec = TopicsSpec()
    """The topics between the tiers."""
    suspend: StrictBool = False
    """Whether the query rests, its state kept."""
    delivery: Literal["exactlyOnce", "atLeastOnce"] = "exactlyOnce"
    """Whether readers that read committed see each result once, or readers of any kind see it sooner, perhaps twice."""
    output: OutputSpec
    """Where results go."""


class Manifest(Block):
    api_version: Literal["biclique.dev/v1alpha1"]
    """The version of this page."""
    kind: Literal["JoinQuery"]
    """What this is."""
    metadata: Metadata
    """The query's name."""
    spec: Spec
    """The query."""
    status: Any = None
    """Written by the operator; never read here."""
    _folder: str = PrivateAttr(default=".")

    @property
    def folder(self) -> str:
        """Where relative paths begin: the folder of the manifest's file."""
        return self._folder


def validated(document: Document, folder: str = ".") -> Manifest:
    """The document as a Manifest, or a QueryError about the first thing that is wrong with it."""
    try:
        manifest = Manifest.model_validate(document.value)
    except ValidationError as error:
        complaint = complaint_of(document, error, Manifest)
    else:
        manifest._folder = folder
        return manifest
    raise complaint


def read_manifest(text: str, folder: str = ".") -> Manifest:
    """The whole manifest, every block of it, with ranges checked; the SQL is not looked at."""
    return validated(read_document(text), folder)
