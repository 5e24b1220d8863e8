"""The data plane, Kafka to Kafka: a real broker and a real Redis, the tiers as `biclique tier` processes, Flink beside
them on the same cores.

    python -m bench.kafka                 every trial
    python -m bench.kafka band latency    some of them; --list names all, --quick makes them small, --json prints lines

What every trial keeps to:

* All that runs at once shares the machine's cores: broker, tiers or Flink, whoever writes and whoever reads.
* A throughput's clock begins when its input becomes visible, all of it at once, by the commit of one transaction in
  which it was written, and ends when the last result is readable for a reader with `isolation.level=read_committed`.
  Every engine was up and warm by then: it had answered a fiftieth of the rows.
* A latency begins when the broker has appended the later of two tuples (its own time stamp) and ends when a
  read-committed reader has their result in hand.
* Results are read back and compared with DuckDB's: a run that lost or doubled one has no figure.
"""
