"""The embedded engine: one query, from files and topics to files, on this machine.

Spark's tasks parse the files, a thread for each topic its messages; the tiers run in this thread; another one writes.
At a barrier (every few seconds, and at the end) reading pauses, everything that was read is handled, state and output
are flushed to disk, and one atomic rename makes all of it true together: progress, positions in the input, state,
output. Killed at any moment, the next run goes on at the last barrier that is true, and removes what came after it; so
each pair is in the files exactly once.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import xxhash

from biclique.hosts.feeds import Feed
from biclique.hosts.file_feed import FileFeed
from biclique.hosts.folders import SPARK_LOG, made, refuse_foreign, refuse_unusable
from biclique.hosts.local_tiers import PARTITION, DamagedCheckpoint, EngineClock, LocalTiers, Resumed, owners_of_state
from biclique.hosts.outputs import DEAD, FOLDERS, Outputs, first_dead
from biclique.hosts.reading import Hub, NoTasks, SourceReader, Tasks, refuse_other_input, slots_for
from biclique.hosts.spark import Spark
from biclique.hosts.summary import Facts, Summary, fates_of
from biclique.hosts.topic_feed import TopicFeed
from biclique.hosts.topic_opening import Opening, kafka_topics
from biclique.hosts.warm_up import warm_up
from biclique.kernels.groups import SumOverflow
from biclique.plan.model import Plan
from biclique.ports.file_sink import publish, recover, written_parts
from biclique.ports.folder import FolderInUse, FolderStore
from biclique.ports.run_state import DamagedState, RunState, SourceState, load_state, save_state
from biclique.query.errors import QueryError
from biclique.query.model import BadRecordBurst, Files, Kafka, OnBadRecord, Query
from biclique.tiers.messages import TIME_NEVER, LateTuples, Mark, Results, SetAside, SourceBlock, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition

IDLE_WAIT_SECONDS = 0.05  # for input, when there is nothing else to do; as long as dispatchers wait before they answer
FAIL_REMEDY = "correct it and begin anew with --restart, or choose onBadRecord: deadLetter and go on"


class Ending(Enum):
    FINISHED = "finished"
    STOPPED = "stopped"
    OUT_OF_MEMORY = "out of memory"
    NOTHING_TO_DO = "nothing to do"


@dataclass(frozen=True, slots=True)
class Options:
    """`checkpoint`: None: beneath the output folder. `barrier_seconds`: how much of a run a crash may cost."""

    follow: bool = False
    restart: bool = False
    checkpoint: Path | None = None
    barrier_seconds: float = 10.0
    look_seconds: float = 1.0  # for new files, and the display


@dataclass(frozen=True, slots=True)
class Outcome:
    ending: Ending
    summary: Summary | None
    checkpoint: Path


class Engine:
    """`stop`: asked between any two blocks. `show`: called every `look_seconds`. `tasks`: starts whoever runs the
    reading tasks, given how many may run at once and where to log. `topics`: who knows the topics of a source, and how
    to read it."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        stop: Callable[[], bool],
        show: Callable[[Facts], None],
        tasks: Callable[[int, Path], Tasks] = Spark,
        topics: Opening = kafka_topics,
    ) -> None:
        self._plan, self._query, self._options, self._start_tasks = plan, plan.query, options, tasks
        self._topics = topics
        self._stop, self._show = stop, show
        output = output_of(plan.query)
        self.root = Path(output.path)
        self.checkpoint = options.checkpoint or self.root / "_checkpoint"
        self._fingerprint = fingerprint(plan)

    # --- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        chosen = self._options.checkpoint is not None
        refuse_unusable(self.root, self.checkpoint, chosen)
        self._found()  # before a folder is made: a refusal leaves nothing behind
        made(self.root, self.checkpoint, chosen)
        store = self._locked()
        try:
            state = self._found()  # as it stands now that nobody else can change it
            if state is None or self._options.restart or not state.barrier:
                # First the state, so that whoever is killed in between begins anew and not behind a gap. Where topics
                # are read from and up to was chosen when the run began, though.
                chosen_before = state.sources if state and not self._options.restart else ()
                state = RunState(self._fingerprint, state.attempt if state else 0, sources=chosen_before)
                save_state(self.checkpoint, state)
                self._remove_all()
                store.close()
                store = self._locked()  # what it had looked up is gone
            recover(self.root, FOLDERS, state.parts)
            if state.finished:
                for number, source in enumerate(state.sources):
                    refuse_other_input(self._query, number, source)
                return Outcome(Ending.NOTHING_TO_DO, None, self.checkpoint)
            state = replace(state, attempt=state.attempt + 1)
            save_state(self.checkpoint, state)
            return self._run(state, store)
        finally:
            store.close()

    def _locked(self) -> FolderStore:
        try:
            return FolderStore(self.checkpoint)
        except FolderInUse as error:
            raise QueryError(str(self.checkpoint), "another run uses this folder", "wait for it, or stop it") from error

    def _run(self, state: RunState, store: FolderStore) -> Outcome:
        self._state, self._store = state, store
        files = sum(isinstance(source.input, Files) for source in self._query.sources)
        tasks = self._start_tasks(slots_for(files), self.checkpoint / SPARK_LOG) if files else NoTasks()
        hub = Hub(self.checkpoint, self._query.hints.memory_bytes)
        self._feeds: tuple[Feed, ...] = ()
        try:
            began = time.monotonic()
            resumed = Resumed(state.progress, state.ends, state.manifests) if state.barrier else None
            taken = taken_in(resumed)
            self._feeds = tuple(self._feed_of(number, hub, tasks, taken) for number in range(len(self._query.sources)))
            if not state.barrier:
                self._state = replace(state, sources=tuple(feed.state for feed in self._feeds))
                save_state(self.checkpoint, self._state)
            self._clock = EngineClock()
            for owner in owners_of_state(self._plan):
                store.retract(owner, state.manifests.get(owner, -1))
            try:
                keys = [SourcePartition(feed.number, number) for feed in self._feeds for number in feed.partitions]
                self._tiers = LocalTiers(
                    self._plan, store, state.attempt, resumed, self._clock, not self._options.follow, keys
                )
            except DamagedCheckpoint as error:
                raise self._damaged(str(error)) from error
            warm_up(self._plan)
            self._warm_seconds = time.monotonic() - began
            tasks.wait()
            self._start_seconds = time.monotonic() - began
            self._reading_began = time.monotonic()
            for feed in self._feeds:
                feed.start()
            self._hub = hub
            self._outputs = Outputs(self._query, self.root, self._file_name, state.barrier)
            try:
                return self._join()
            except SumOverflow as error:
                raise QueryError("spec.sql", str(error)) from error
            finally:
                self._outputs.close()
        finally:
            for feed in self._feeds:
                feed.close()
            hub.close()
            tasks.stop()

    def _join(self) -> Outcome:
        self._greatest = [TIME_NEVER] * len(self._query.sources)
        self._rows_before = sum(feed.state.rows for feed in self._feeds)
        self._began = time.monotonic()
        looked = sealed = self._began
        fed_since = False
        while True:
            busy = self._tiers.run_round()
            self._collect()
            now = time.monotonic()
            if self._stop():
                self._barrier(finished=False)
                return self._outcome(Ending.STOPPED)
            if now - looked >= self._options.look_seconds:
                looked = now
                self._look()
            if now - sealed >= self._options.barrier_seconds:
                # What an idle source has closed is to be seen, too, though nothing was read.
                if fed_since or self._outputs.rows != self._written:
                    self._barrier(finished=False)
                sealed, fed_since = time.monotonic(), False
            if busy:
                continue
            # Before each block: in a second between two looks, more comes than a small budget holds.
            if self._over_budget():
                self._barrier(finished=False)
                return self._outcome(Ending.OUT_OF_MEMORY)
            if self._feed():
                fed_since = True
            elif all(feed.caught_up for feed in self._feeds) and not self._options.follow:
                self._barrier(finished=True)
                return self._outcome(Ending.FINISHED)
            else:
                self._hub.arrived.wait(IDLE_WAIT_SECONDS)
                self._hub.arrived.clear()

    # --- input -------------------------------------------------------------------------------------------------------

    def _feed(self) -> bool:
        """Blocks of the sources whose turn it is. With windows that is the one that is behind in event time: who runs
        ahead only fills memory, and moves the watermark for nobody; and where windows count tuples, stamps then follow
        event time as far as blocks let them. Sources without times take turns."""
        waiting = [feed for feed in self._feeds if not feed.caught_up]
        windowed = any(side.windowed for stage in self._plan.stages for side in stage.sides)
        in_turn = not (windowed and all(source.event_time.column is not None for source in self._query.sources))
        if not in_turn:
            waiting = sorted(waiting, key=lambda feed: self._greatest[feed.number])
            if all(isinstance(source.input, Files) for source in self._query.sources):
                waiting = waiting[:1]  # of a topic, whoever is behind may have nothing for long
        fed = False
        for feed in waiting:
            blocks = 0
            for record in feed.take():
                if isinstance(record, SourceBlock):
                    self._look_at(record)
                    blocks += 1
                self._tiers.feed(record)
                fed = True
            # A heartbeat is no turn: a source that is behind and idle sends enough of them to keep others out for ever.
            if blocks and not in_turn:
                break
        return fed

    def _look_at(self, block: SourceBlock) -> None:
        if block.dead and self._query.sources[block.source].on_bad_record is OnBadRecord.FAIL:
            raise QueryError(block.dead[0].place, block.dead[0].reason, FAIL_REMEDY)
        timed = block.times[block.marks != Mark.DEAD.value]
        if len(timed):
            self._greatest[block.source] = max(self._greatest[block.source], int(timed.max()))

    def _look(self) -> None:
        if self._options.follow:
            for feed in self._feeds:
                feed.look()
        self._show(self._facts())

    # --- output ------------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        for topic in (Topic.OUTPUT, Topic.LATE, Topic.DEAD):
            for record in self._tiers.take(topic):
                match record:
                    case Results():
                        self._outputs.results(record)
                    case LateTuples():
                        self._outputs.late(record)
                    case SetAside():
                        self._outputs.dead(record)
                    case _:
                        raise AssertionError(f"{type(record).__name__} in {topic.value}")
        self._tiers.trim()

    def _barrier(self, finished: bool) -> None:
        self._tiers.reach_end()
        if finished:
            self._tiers.finish()
        self._collect()
        # State that nobody will come back for is not written.
        manifests = {} if finished else self._tiers.seal()
        parts = self._outputs.seal()
        progress, ends = self._tiers.log.snapshot()
        self._state = replace(
            self._state,
            barrier=self._state.barrier + 1,
            finished=finished,
            progress=progress,
            ends=ends,
            sources=tuple(feed.state for feed in self._feeds),
            parts=parts,
            manifests=manifests,
            totals={"rows_out": self._rows_out()},
        )
        self._written = self._outputs.rows
        save_state(self.checkpoint, self._state)
        publish(self.root, parts)
        self._outputs.committed()
        if finished:
            self._forget_state()
        self._ended = time.monotonic()

    _written = 0  # of this process, that are in `totals` already

    def _rows_out(self) -> int:
        return self._state.totals.get("rows_out", 0) + self._outputs.rows - self._written

    # --- looking -----------------------------------------------------------------------------------------------------

    def _facts(self) -> Facts:
        return Facts(
            seconds=time.monotonic() - self._began,
            rows_in=tuple(feed.state.rows for feed in self._feeds),
            rows_out=self._rows_out(),
            bytes_read=tuple(feed.bytes_known() for feed in self._feeds),
            watermark=self._tiers.watermark(),
            state=tuple(self._tiers.state_sizes().values()),
        )

    def _over_budget(self) -> bool:
        """A unit has more than it may; or, all being in this process, all of them together with the blocks that were
        read ahead have."""
        sizes = [size for _, size in self._tiers.state_sizes().values()]
        unit, ahead = self._query.hints.memory_bytes, sum(feed.ahead_bytes for feed in self._feeds)
        return max(sizes) > unit or sum(sizes) + ahead > unit * len(sizes)

    def _outcome(self, ending: Ending) -> Outcome:
        facts = self._facts()
        summary = Summary(
            sources=fates_of(self._query, facts.rows_in, [progress.fates for progress in self._tiers.dispatchers()]),
            rows_out=facts.rows_out,
            failed_expressions=self._tiers.failed_expressions(),
            seconds=self._ended - self._reading_began,
            start_seconds=self._start_seconds,
            warm_up_seconds=self._warm_seconds,
            rows_this_run=sum(facts.rows_in) - self._rows_before,
            state_rows=sum(rows for rows, _ in facts.state),
            state_bytes=sum(size for _, size in facts.state),
            watermark=None if facts.watermark == TIME_NEVER else facts.watermark,
            dead_in=str(self.root / DEAD),
            first_dead=first_dead(self.root),
        )
        return Outcome(ending, summary, self.checkpoint)

    # --- what was there before ---------------------------------------------------------------------------------------

    def _found(self) -> RunState | None:
        """What an earlier run has left; None: nothing to go on from."""
        try:
            state = load_state(self.checkpoint)
        except DamagedState as error:
            if not self._options.restart:
                raise self._damaged(str(error)) from error
            return None
        if state is None:
            refuse_foreign(self.root, self.checkpoint)
        elif state.fingerprint != self._fingerprint and not self._options.restart:
            raise QueryError(
                str(self.checkpoint),
                "it belongs to another query, or this one was changed since",
                "give another output folder, or begin anew with --restart",
            )
        return state

    def _remove_all(self) -> None:
        """What runs of ours have written: part files and the checkpoint, nothing else."""
        for path in written_parts(self.root, FOLDERS):
            path.unlink()
        self._forget_state()

    def _forget_state(self) -> None:
        """Of the joiners: nobody will go on from it."""
        for name in ("blobs", "manifests"):
            shutil.rmtree(self.checkpoint / name, ignore_errors=True)

    def _damaged(self, problem: str) -> QueryError:
        return QueryError(str(self.checkpoint), problem, "begin anew with --restart")

    def _source_state(self, number: int) -> SourceState:
        return self._state.sources[number] if self._state.sources else SourceState()

    def _feed_of(self, number: int, hub: Hub, tasks: Tasks, taken: Mapping[SourcePartition, int]) -> Feed:
        query, follow, state = self._query, self._options.follow, self._source_state(number)
        if isinstance(query.sources[number].input, Files):
            reader = SourceReader(query, number, hub, tasks, state, follow)
            last = taken.get(SourcePartition(number, PARTITION), -1)
            return FileFeed(query, reader, follow, last, self._state.attempt)
        topics, opened = self._topics(query, number)
        return TopicFeed(query, number, topics, opened, state, follow, taken, self._state.attempt, hub.arrived)

    def _file_name(self, source: int, ordinal: int) -> str:
        return self._feeds[source].file_name(ordinal)


def output_of(query: Query) -> Files:
    if not isinstance(query.output, Files):
        raise QueryError(
            "spec.output.kafka",
            "`biclique run` writes files, and no topics",
            "write `output: {files: {path: out, format: json}}`, or start the query's tiers, which write topics"
            " (docs/data-plane.md)",
        )
    return query.output


def taken_in(resumed: Resumed | None) -> dict[SourcePartition, int]:
    """The place of the last record that a dispatcher has of each source partition."""
    taken: dict[SourcePartition, int] = {}
    for progress in resumed.progress.values() if resumed else ():
        if isinstance(progress, DispatcherProgress):
            taken |= progress.last
    return taken


def fingerprint(plan: Plan) -> str:
    """Of all that decides results and the form of the state: not of where files are, nor of the memory's size, nor of
    what is done with bad records, which people change when one has stopped a run."""
    query = plan.query
    assert isinstance(query.output, Files)
    bare = replace(
        query,
        sources=tuple(
            replace(
                source,
                input=_bare(source.input),
                on_bad_record=OnBadRecord.DEAD_LETTER,
                bad_record_burst=BadRecordBurst(),
            )
            for source in query.sources
        ),
        output=Files("", query.output.format),
        hints=replace(query.hints, memory_bytes=0, dispatchers_bytes=0, mergers_bytes=0),
    )
    text = repr((bare, plan.order, plan.stages, plan.dispatchers, plan.mergers))
    return f"{xxhash.xxh64_intdigest(text.encode()):016x}"


def _bare(given: Files | Kafka) -> Files | Kafka:
    """Without where it is, by whom it is read, and what was chosen when the run began."""
    if isinstance(given, Files):
        return replace(given, path="")
    return replace(given, bootstrap_servers="", secret=None, starting_offsets="earliest")
