"""The model of Kafka is judged by a real one: the same conversations, the same answers."""

from __future__ import annotations

from random import Random

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.support.conversations.chat import Chat
from tests.support.conversations.lines import KafkaLine, Line, ModelLine
from tests.support.conversations.scripts import CONVERSATIONS, Conversation

pytestmark = [pytest.mark.kafka]

RANDOM_CONVERSATIONS = 50
STEPS = 40


def held(line: Line, conversation: Conversation) -> list[object]:
    """What the brokers at the end of ``line`` answered."""
    try:
        chat = Chat(line, conversation.name, **conversation.config)
        conversation.script(chat)
    finally:
        line.close()
    return chat.said


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda each: each.name)
def test_the_model_answers_as_kafka_does(
    transactional: KafkaCluster, protocol: int, conversation: Conversation
) -> None:
    if protocol not in conversation.protocols:
        pytest.skip(f"not about version {protocol} of the protocol")
    model = ModelLine.of(3, ClusterOptions(transaction_version=protocol))
    said = held(KafkaLine(transactional), conversation)
    assert held(model, conversation) == said


def ramble(chat: Chat, random: Random) -> None:
    """Batches of two producers whose epochs and sequence numbers are often wrong."""
    producers = [chat.init()[0], chat.init()[0]]
    known = {number: [0, 0] for number in producers}
    sent: list[tuple[int, int, int, int]] = []
    for _ in range(STEPS):
        number = random.choice(producers)
        epoch, sequence = known[number]
        size = random.randint(1, 3)
        match random.randrange(8):
            case 0 if sent:
                number, epoch, sequence, size = random.choice(sent[-8:])
            case 1:
                sequence = max(0, sequence + random.choice((-2, -1, 1, 2)))
            case 2:
                epoch = max(0, epoch + random.choice((-1, 1)))
            case 3:
                epoch, sequence = epoch + 1, 0
        body = chat.produce(sequence, size, producer=(number, epoch))
        if not body.responses[0].partition_responses[0].error_code:
            sent.append((number, epoch, sequence, size))
            if (epoch, sequence + size) >= tuple(known[number]):
                known[number] = [epoch, sequence + size]
    chat.fetch()
    chat.list_offsets(-1)


@pytest.mark.parametrize("protocol", [2], indirect=True)
def test_sequence_numbers_at_random(transactional: KafkaCluster, protocol: int) -> None:
    kafka = KafkaLine(transactional)
    try:
        for seed in range(RANDOM_CONVERSATIONS):
            said = []
            for line in (kafka, ModelLine.of(3, ClusterOptions(transaction_version=protocol))):
                chat = Chat(line, "random")
                ramble(chat, Random(seed))
                said.append(chat.said)
            assert said[1] == said[0], f"seed {seed}"
    finally:
        kafka.close()
