"""How the embedded engine comes to the topics of a source: by the settings of its own `kafka` block."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from biclique.hosts.shuffle.starts import Topics
from biclique.hosts.topic_feed import Messages
from biclique.query.model import Kafka, Query

Opening = Callable[[Query, int], tuple[Topics, Callable[[Mapping[int, int]], Messages]]]


def kafka_topics(query: Query, source: int) -> tuple[Topics, Callable[[Mapping[int, int]], Messages]]:
    """Who knows the topics of all sources, and who reads this one from these offsets on."""
    from biclique.hosts.units.connections import source_client, source_topics  # clients that files do not need
    from biclique.hosts.units.spec import Surroundings
    from biclique.hosts.units.start_up import cluster_of
    from biclique.ports.kafka_input import TopicInput
    from biclique.ports.kafka_log import KafkaSettings

    around = Surroundings({}, "", "", "", secrets=os.environ.get("BICLIQUE_SECRETS", ""))
    given, client = query.sources[source].input, source_client(around, query, source)
    assert isinstance(given, Kafka)
    cluster_of(KafkaSettings(client, ""))  # says best who does not answer, or refuses whom
    return source_topics(around, query), lambda begins: TopicInput(client, given.topic, begins)
