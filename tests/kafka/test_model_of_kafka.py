"""The model of Kafka is judged by a real one: the same conversations, the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.kafka.conftest import LEAST_SESSION_MS
from tests.support.conversations.chat import Chat
from tests.support.conversations.classic_groups import CLASSIC_GROUPS
from tests.support.conversations.conversation import Conversation
from tests.support.conversations.epoch_groups import EPOCH_GROUPS
from tests.support.conversations.fetch_sessions import FETCH_SESSIONS
from tests.support.conversations.lines import KafkaLine, Line, ModelLine
from tests.support.conversations.migrated_groups import MIGRATED_GROUPS
from tests.support.conversations.scripts import CONVERSATIONS

pytestmark = [pytest.mark.kafka]

RANDOM_CONVERSATIONS = 50
MOST_STEPS = 30

Kind: TypeAlias = Literal["next", "again", "gap", "overlap", "new epoch", "old epoch", "anything"]
Step: TypeAlias = tuple[int, Kind, int, int]
"""Which of two producers, what it does, the number of records, and a number for ``anything``."""

ALL = [*CONVERSATIONS, *CLASSIC_GROUPS, *EPOCH_GROUPS, *MIGRATED_GROUPS, *FETCH_SESSIONS]
OF_EITHER_PROTOCOL = [each for each in ALL if each.protocols == (1, 2)]
OF_THE_NEWER_ONE = [each for each in ALL if each.protocols == (2,)]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(Kind.__args__),  # type: ignore[attr-defined]
        st.integers(1, 3),
        st.integers(0, 9),
    ),
    max_size=MOST_STEPS,
)


@pytest.mark.parametrize("conversation", OF_EITHER_PROTOCOL, ids=lambda each: each.name)
def test_the_model_answers_as_kafka_does_with_either_protocol(
    transactional: KafkaCluster, protocol: int, conversation: Conversation
) -> None:
    same_answers(transactional, protocol, conversation)


@pytest.mark.parametrize("conversation", OF_THE_NEWER_ONE, ids=lambda each: each.name)
def test_the_model_answers_as_kafka_does(kafka: KafkaCluster, conversation: Conversation) -> None:
    same_answers(kafka, 2, conversation)


def test_every_conversation_is_held() -> None:
    held = {each.name for each in OF_EITHER_PROTOCOL + OF_THE_NEWER_ONE}
    assert held == {each.name for each in ALL}
    assert len(held) == len(ALL) >= 60


def same_answers(kafka: KafkaCluster, protocol: int, conversation: Conversation) -> None:
    options = ClusterOptions(
        transaction_version=protocol,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=LEAST_SESSION_MS,
    )
    model = ModelLine.of(3, options)
    said = held(KafkaLine(kafka), conversation)
    assert held(model, conversation) == said


def held(line: Line, conversation: Conversation) -> list[object]:
    """What the brokers at the end of ``line`` answered."""
    try:
        chat = Chat(line, conversation.name, conversation.config)
        conversation.script(chat)
    finally:
        line.close()
    return chat.said


def test_sequence_numbers_at_random(kafka: KafkaCluster) -> None:
    line = KafkaLine(kafka)

    @settings(
        max_examples=RANDOM_CONVERSATIONS,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(STEPS)
    def same(steps: Sequence[Step]) -> None:
        assert rambled(ModelLine.of(3, ClusterOptions()), steps) == rambled(line, steps)

    try:
        same()
    finally:
        line.close()


def rambled(line: Line, steps: Sequence[Step]) -> list[object]:
    """The answers to batches whose epochs and sequence numbers are often wrong."""
    chat = Chat(line, "random")
    numbers = [chat.init()[0], chat.init()[0]]
    next_ones = [(0, 0), (0, 0)]
    sent: list[tuple[int, int, int, int]] = []
    for who, kind, size, anything in steps:
        epoch, sequence = next_ones[who]
        match kind:
            case "again" if sent:
                who, epoch, sequence, size = sent[-1 - anything % len(sent)]
            case "gap":
                sequence += 1 + anything
            case "overlap":
                sequence = max(0, sequence - 1 - anything % 3)
            case "new epoch":
                epoch, sequence = epoch + 1, anything % 2
            case "old epoch":
                epoch = max(0, epoch - 1)
            case "anything":
                epoch, sequence = anything % 3, anything
        body = chat.produce(sequence, size, producer=(numbers[who], epoch))
        if not body.responses[0].partition_responses[0].error_code:
            sent.append((who, epoch, sequence, size))
            next_ones[who] = max(next_ones[who], (epoch, sequence + size))
    chat.fetch()
    chat.list_offsets(-1)
    return chat.said
