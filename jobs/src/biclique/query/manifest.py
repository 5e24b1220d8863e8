"""The JoinQuery manifest as frozen models: every key of a manifest, its default and its range. The CRD is made from
these.

Names are as in the manifest (camelCase there, snake_case here). Quantities are held as whole numbers: microseconds,
bytes, thousandths of a processor. What a model cannot say (SQL against schemas, windows) is compile.py's affair.
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


class Metadata(BaseModel):
    """Kubernetes owns this block and adds to it; only the name is ours."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    name: Annotated[StrictStr, Field(pattern=DNS_LABEL)]
    namespace: StrictStr | None = None


class SecretRef(Block):
    """A Secret in the query's namespace; absent or `{}`: none."""

    name: Annotated[StrictStr, Field(pattern=DNS_LABEL)] | None = None


class EventTimeSpec(Block):
    column: Text | None = None  # absent: the record's own time
    lateness: Duration = 0
    max_future_skew: Duration = 300_000_000
    idle_after: Duration = 5_000_000


class WindowSpec(Block):
    time: Duration | None = None
    tuples: Annotated[StrictInt, Field(ge=1, le=10**12)] | None = None

    @model_validator(mode="after")
    def _one(self) -> WindowSpec:
        return _exactly_one(self, "time", "tuples")


class FilesSpec(Block):
    path: Text
    format: Literal["parquet", "csv", "json"] = "parquet"


class KafkaSpec(Block):
    bootstrap_servers: Text
    topic: Annotated[StrictStr, Field(pattern=TOPIC)]
    format: Literal["json", "arrow"] = "json"
    secret_ref: SecretRef = SecretRef()


class KafkaInputSpec(KafkaSpec):
    starting_offsets: Annotated[Text, AfterValidator(_starting_offsets)] = "earliest"


class SourceSpec(Block):
    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")]
    schema_: Annotated[StrictStr, Field(alias="schema", min_length=1, max_length=65_536)]
    event_time: EventTimeSpec = EventTimeSpec()
    window: WindowSpec | None = None
    kafka: KafkaInputSpec | None = None
    files: FilesSpec | None = None
    on_bad_record: Literal["deadLetter", "drop", "fail"] = "deadLetter"

    @model_validator(mode="after")
    def _one(self) -> SourceSpec:
        return _exactly_one(self, "kafka", "files")


class PlanSpec(Block):
    strategy: Literal["biclique", "hash", "random", "matrix"] | None = None
    subgroups: dict[StrictStr, Count] = Field(default_factory=dict)  # relation → count
    transport: Literal["auto", "tuples", "keys"] = "auto"


class Toleration(Block):
    key: StrictStr | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: StrictStr | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: StrictInt | None = None


class PodOverride(Block):
    """What a tier may set for its own pods; absent: as `tiers` says."""

    cpu: Cpu | None = None
    memory: Memory | None = None
    image: StrictStr | None = None
    node_selector: dict[StrictStr, StrictStr] | None = None
    tolerations: tuple[Toleration, ...] | None = None


class TierOverride(PodOverride):
    executors: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None


class JoinersSpec(PodOverride):
    replicas: Count = 1
    min_replicas: Count | None = None
    max_replicas: Count | None = None
    memory: Memory = 2 << 30

    @model_validator(mode="after")
    def _ordered(self) -> JoinersSpec:
        least, most = self.min_replicas or 1, self.max_replicas or max(self.replicas, self.min_replicas or 1)
        if not least <= self.replicas <= most:
            raise ValueError("does not have minReplicas <= replicas <= maxReplicas; put the three in order")
        return self


class TiersSpec(Block):
    executors: Annotated[StrictInt, Field(ge=0, le=1000)] = 1  # 0: the units run in the driver
    cpu: Cpu = 500
    memory: Memory = 1 << 30
    image: StrictStr = ""
    node_selector: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    shuffler: TierOverride = TierOverride()
    dispatcher: TierOverride = TierOverride()
    merger: TierOverride = TierOverride()


class ScalingSpec(Block):
    policy: Literal["twoPhase", "none"] = "twoPhase"
    high: Share = 0.8
    low: Share = 0.3
    target: Share = 0.6
    period: Duration = 60_000_000
    confirmations: Annotated[StrictInt, Field(ge=1, le=100)] = 3
    drain_timeout: Duration = 600_000_000

    @model_validator(mode="after")
    def _ordered(self) -> ScalingSpec:
        if not self.low < self.target < self.high:
            raise ValueError("does not have low < target < high; put the three in order")
        if self.period == 0:
            raise ValueError("has a period of zero; write one such as 1m")
        return self


class RedisSpec(Block):
    url: Annotated[StrictStr, Field(pattern=r"^(rediss?|unix)://\S+$", max_length=4096)]
    secret_ref: SecretRef = SecretRef()


class S3Spec(Block):
    bucket: Text
    prefix: StrictStr = ""
    endpoint: StrictStr | None = None
    region: StrictStr | None = None
    secret_ref: SecretRef = SecretRef()


class VolumeSpec(Block):
    claim_name: Text
    path: StrictStr = ""


class DurableSpec(Block):
    s3: S3Spec | None = None
    volume: VolumeSpec | None = None

    @model_validator(mode="after")
    def _at_most_one(self) -> DurableSpec:
        if self.s3 is not None and self.volume is not None:
            raise ValueError("has both s3 and volume; keep one")
        return self


class StateSpec(Block):
    redis: RedisSpec | None = None
    durable: DurableSpec = DurableSpec()


class TopicsSpec(Block):
    partitions: Annotated[StrictInt, Field(ge=1, le=128)] = 4  # a stamp has 7 bits for the dispatcher
    replication: Annotated[StrictInt, Field(ge=1, le=32)] = 3
    create_output: StrictBool = False


class OutputSpec(Block):
    kafka: KafkaSpec | None = None
    files: FilesSpec | None = None

    @model_validator(mode="after")
    def _one(self) -> OutputSpec:
        return _exactly_one(self, "kafka", "files")


class Spec(Block):
    sources: Annotated[tuple[SourceSpec, ...], Field(min_length=1, max_length=SOURCES_MAX)]
    sql: Annotated[StrictStr, Field(min_length=1)]
    plan: PlanSpec = PlanSpec()
    joiners: JoinersSpec = JoinersSpec()
    tiers: TiersSpec = TiersSpec()
    scaling: ScalingSpec = ScalingSpec(policy="none")  # absent: the number of units stays as it is
    state: StateSpec = StateSpec()
    topics: TopicsSpec = TopicsSpec()
    suspend: StrictBool = False
    delivery: Literal["exactlyOnce", "atLeastOnce"] = "exactlyOnce"
    output: OutputSpec


class Manifest(Block):
    api_version: Literal["biclique.dev/v1alpha1"]
    kind: Literal["JoinQuery"]
    metadata: Metadata
    spec: Spec
    status: Any = None  # written by the operator; never read here
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
