"""What goes wrong in a life; each fault is a method, called at its moment."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.model import RequestFaults
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.simulation.plan import Event
from tests.support.simulated_world import (
    change,
    connections_to,
    loop_of,
    model_of,
    network_of,
)

if TYPE_CHECKING:
    from tests.simulation.life import Life

_BASE_DELAYS: Final = {
    "none": (0.0, 0.0),
    "even": (0.001, 0.001),
    "jitter": (0.0002, 0.02),
    "far": (0.1, 0.13),
}
_SLOW_TAIL: Final = 0.02
_SLOW_BY: Final = 0.15
"""One piece of fifty is late by so many seconds."""
PRODUCE: Final = 0
_SWITCH_OF: Final = {
    "slow": {"slow"},
    "drip": {"dripping"},
    "hang_up": {"hanging up"},
    "descriptors": {"descriptors"},
    "replace": {"replaced"},
}
"""The switch that is lived with an event."""


class Network:
    """The delays of a life's network."""

    def __init__(self, world: SimulatedWorld, kind: str) -> None:
        self.random = Random(f"{world.seed} network")
        self.least, self.most = _BASE_DELAYS[kind]
        self.factor = 1.0
        network_of(world).delay = self.delay

    def delay(self) -> float:
        """Seconds that the next bytes are under way."""
        if self.least == self.most:
            return self.least * self.factor
        seconds = self.random.uniform(self.least, self.most)
        if self.random.random() < _SLOW_TAIL:
            seconds += _SLOW_BY
        return seconds * self.factor


class Faults:
    """The faults of a life, and their ends."""

    def __init__(self, life: Life, network: Network) -> None:
        self.life = life
        self.world = life.world
        self.cluster = life.world.cluster
        self.model = model_of(life.world)
        self.network = network
        self._at_peace = False
        self._repairs: dict[Callable[[], object], None] = {}

    def begin(self, event: Event) -> None:
        """Let it happen, unless there is peace already."""
        if self._at_peace:
            return
        self.life.tell(f"{event.kind}{event.args}")
        self.life.lived |= _SWITCH_OF.get(event.kind, set())
        getattr(self, event.kind)(*event.args)

    def _later(self, seconds: float, repair: Callable[[], object]) -> None:
        def end() -> None:
            if self._repairs.pop(repair, repair) is None:
                repair()

        self._repairs[repair] = None
        loop_of(self.world).outside.call_later(seconds, end)

    def end_all(self) -> None:
        """Make peace: everything is repaired, and nothing more goes wrong."""
        self._at_peace = True
        for repair in list(self._repairs):
            del self._repairs[repair]
            repair()
        self.model.faults = RequestFaults()

    def nothing(self) -> None:
        """An event that was left out."""

    # --- the process -----------------------------------------------------------------------

    def freeze(self, seconds: float, place: str) -> None:
        """The process is stopped."""
        self.life.stop(seconds, place)

    # --- the network -----------------------------------------------------------------------

    def cut(self, broker: int, requests: float, responses: float) -> None:
        """All connections are reset; a part of what is under way arrives."""
        for connection in connections_to(self.world, broker):
            connection.cut(
                int(connection.requests.under_way * requests),
                int(connection.responses.under_way * responses),
            )

    def stall(self, broker: int, which: str, seconds: float) -> None:
        """Connections pass nothing on in one or both directions, and go on later."""
        stalled = connections_to(self.world, broker)
        for connection in stalled:
            for name in ("requests", "responses"):
                if which in (name, "both"):
                    getattr(connection, name).stall()

        def release() -> None:
            for connection in stalled:
                connection.requests.release()
                connection.responses.release()

        self._later(seconds, release)

    def forget(self, broker: int) -> None:
        """A firewall forgets the connections, until there is peace."""
        for connection in connections_to(self.world, broker):
            connection.stall()
            self._repairs[connection.cut] = None

    def slow(self, factor: float, seconds: float) -> None:
        """The network is slow."""
        self.network.factor = factor

        def end() -> None:
            self.network.factor = 1.0

        self._later(seconds, end)

    def silent(self, broker: int, seconds: float) -> None:
        """New connections to a broker are not answered."""
        address, silent = self.model.host(broker), network_of(self.world).silent
        silent.add(address)
        self._later(seconds, lambda: silent.discard(address))

    def swap(self, one: int, other: int, seconds: float) -> None:
        """The addresses of two brokers are exchanged for a while."""
        addresses = self.model.host(one), self.model.host(other)

        def exchange() -> None:
            network_of(self.world).swap(*addresses)
            for broker in (one, other):
                self.cut(broker, 1.0, 0.0)

        exchange()
        self._later(seconds, exchange)

    def mute(self, broker: int, seconds: float) -> None:
        """Requests arrive at a broker, but nothing comes back from it, on new connections too."""
        self.stall(broker, "responses", seconds)
        self.silent(broker, seconds)

    def drip(self, broker: int, size: int, pause: float, seconds: float) -> None:
        """The responses of a broker come in a few bytes at once."""
        address, dripping = self.model.host(broker), network_of(self.world).dripping
        dripping[address] = size, pause
        self._later(seconds, lambda: dripping.pop(address, None))

    def hang_up(self, api: int, times: int) -> None:
        """The peer hangs up in place of the next responses of a kind."""
        self.model.lose_next_response(api, times=times)

    def descriptors(self, broker: int, seconds: float) -> None:
        """The process has no file descriptors, as a connection is lost."""
        network = network_of(self.world)
        network.has_descriptors = False
        self.cut(broker, 1.0, 0.0)

        def end() -> None:
            network.has_descriptors = True

        self._later(seconds, end)

    # --- brokers ---------------------------------------------------------------------------

    def crash(self, broker: int, seconds: float, *, lossy: bool = False) -> None:
        """A broker is down for a while."""
        if broker in self.life.down:
            return
        self.life.down.add(broker)
        self.cluster.crash(broker, lose_unreplicated=lossy)

        def restart() -> None:
            self.life.down.discard(broker)
            self.cluster.restart(broker)

        self._later(seconds, restart)

    def lossy_crash(self, broker: int, seconds: float) -> None:
        """A broker is down for a while, and what it alone had is gone."""
        self.crash(broker, seconds, lossy=True)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Another broker leads."""
        if to not in self.life.down:
            self.cluster.move_leader(topic, partition, to)

    def shrink(self, topic: str, partition: int, broker: int, seconds: float) -> None:
        """A replica is out of sync for a while."""
        change(self.world, self.model.shrink_isr, topic, partition, broker, seconds=seconds)

    def fail(self, api: int, code: int, times: int) -> None:
        """The next requests are answered by an error."""
        self.model.fail_next(api, code, times=times)

    def refuse(self, api: int, code: int, times: int) -> None:
        """The next requests are refused for good."""
        self.fail(api, code, times)

    def throttle(self, milliseconds: int, requests: int) -> None:
        """The next responses tell the client to wait."""
        self.model.throttle(milliseconds, requests)

    def lose_response(self, times: int) -> None:
        """The next batches are written, but their responses are lost with the connection."""
        self.model.lose_next_response(PRODUCE, times=times)

    def delete_records(self, topic: str, partition: int, records: int) -> None:
        """The oldest records are deleted."""
        change(self.world, self.model.delete_records, topic, partition, records)

    def truncate(self, topic: str, partition: int, share: float) -> None:
        """The newest records are lost, by an election that was not clean."""
        log = self.model.log(topic, partition)
        end = log[-1].offset + 1 if log else 0
        change(self.world, self.model.truncate, topic, partition, int(end * share))

    def recreate(self, topic: str) -> None:
        """A topic is deleted, and made anew."""
        if len(self.life.down) == self.life.plan.brokers:
            return
        change(self.world, self.model.recreate_topic, topic)

    def replace(self) -> None:
        """Another cluster answers at the addresses of this one."""
        if not self.life.down:
            change(self.world, self.model.replace_cluster)

    def time_out(self, producer: str) -> None:
        """The coordinator aborts the open transaction of a producer."""
        options = self.life.plan.producers.get(producer, {})
        transactional_id = str(options.get("transactional_id"))
        if transactional_id in self.model.transactions():
            change(self.world, self.model.time_out_transaction, transactional_id)

    def expire_ids(self) -> None:
        """The brokers forget the producers."""
        self._note_expiry()
        change(self.world, self.model.expire_producer_ids)

    def refuse_and_expire(self, after: int, lost: int) -> None:
        """A batch is refused for good, the brokers forget the producers at that moment, and the
        responses of the next batches are lost: brokers take any number then.

        ``after``: the number of requests before it.
        """
        rules, left = self.model.faults, after
        usual = rules.error_of

        def error_of(api: int, broker: int) -> ErrorCode:
            nonlocal left
            if api != PRODUCE or left:
                left -= api == PRODUCE
                return usual(api, broker)
            rules.error_of = usual  # type: ignore[method-assign]
            self._note_expiry()
            for partition in self.model.cluster.partitions():
                partition.producers.expire()
            self.model.lose_next_response(PRODUCE, times=lost, after=1)
            return ErrorCode.INVALID_RECORD

        rules.error_of = error_of  # type: ignore[method-assign]

    def _note_expiry(self) -> None:
        ends = {each.where: each.log.end_offset for each in self.model.cluster.partitions()}
        self.life.expiries.append(ends)

    def fence(self) -> None:
        """Other producers start with the transactional ids."""
        self.life.fence()
