"""The parts inside a producer, for tests that watch what users can't see."""

from __future__ import annotations

from aioproducer import Producer, sync
from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.core.engine import Engine
from aioproducer.core.environment import Environment
from aioproducer.core.lifecycle import Lifecycle
from aioproducer.core.producer_core import ProducerCore


def core_of(producer: Producer | sync.Producer) -> ProducerCore:
    """What both shells hold."""
    return producer._core


def lifecycle_of(producer: Producer) -> Lifecycle:
    """The producer's states."""
    return producer._core._lifecycle


def running_engine(producer: Producer) -> Engine | None:
    """The parts of a producer; None: it was not started."""
    return producer._core._engine


def engine_of(producer: Producer | sync.Producer) -> Engine:
    """The parts of a producer that was started."""
    engine = producer._core._engine
    assert engine is not None
    return engine


def accumulator_of(producer: Producer | sync.Producer) -> RecordAccumulator:
    """The batches and the waiting records of a producer that was started."""
    return engine_of(producer).accumulator


def in_environment(environment: Environment) -> type[Producer]:
    """Producers with other clocks, another network, or chance that repeats itself."""

    class ProducerElsewhere(Producer):
        _environment = environment

    return ProducerElsewhere
