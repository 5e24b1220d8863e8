"""What Kafka says, as the two kinds that whoever meets it knows what to do with."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from biclique.ports.kafka_errors import told
from biclique.ports.refusals import Refused, UnfitTopic, Unreachable

ELECTION = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, Unreachable) for code in ELECTION),
        (KafkaError._TRANSPORT, Unreachable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnfitTopic),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused),
        (KafkaError.INVALID_CONFIG, KafkaException),
    ],
)
def test_what_passes_what_a_person_must_mend_and_what_is_neither(code: int, kind: type[Exception]) -> None:
    with pytest.raises((Unreachable, Refused, KafkaException)) as found, told("trying"):
        raise KafkaException(KafkaError(code))
    assert type(found.value) is kind


def test_an_answer_that_does_not_come_may_come() -> None:
    with pytest.raises(Unreachable, match=r"^Kafka does not answer while trying$"), told("trying"):
        raise TimeoutError
