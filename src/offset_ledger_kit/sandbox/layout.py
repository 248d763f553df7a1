"""The folder of the local stack, and the loopback ports that it listens on."""

import os
import random
import socket
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.outside.spark.home import CONNECT_PORT

HOST = "127.0.0.1"
MAX_BROKERS = 3
DEFAULT_PORTS = {"kafka": 19092, "postgres": 15432, "airflow": 18080, "spark": CONNECT_PORT, "registry": 18081}
FIRST_FREE_PORT = 20000
"""Above all default ports."""
OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The ports that Linux gives to outgoing connections: first and last, as in ``man 7 ip``."""


def stack_home(home: Path | None = None) -> Path:
    """The folder of all state: the argument, else OFFSET_LEDGER_HOME, else ``.local`` of the current directory."""
    return Path(home or os.environ.get("OFFSET_LEDGER_HOME") or ".local").expanduser().resolve()


@dataclass(frozen=True, slots=True)
class PortChoice:
    """The ports asked for: None is the default, 0 is any free one; brokers count upwards from ``kafka``."""

    kafka: int | None = None
    postgres: int | None = None
    airflow: int | None = None
    spark: int | None = None
    registry: int | None = None

    @classmethod
    def any_free(cls) -> Self:
        """Free ports for every part, as tests want them."""
        return cls(0, 0, 0, 0, 0)

    def with_environment(self) -> Self:
        """The choice, with what is None taken from OFFSET_LEDGER_KAFKA_PORT and its siblings."""
        ports = asdict(self)
        for part, asked in ports.items():
            name = f"OFFSET_LEDGER_{part.upper()}_PORT"
            raw = os.environ.get(name)
            if raw and asked is None:
                if not raw.isdecimal() or int(raw) > 65535:
                    raise ConfigurationError(f"{name} should be a port number (0 for any free one), found {raw!r}")
                ports[part] = int(raw)
        return replace(self, **ports)


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one stack, all different: one for each possible broker, and the KRaft controller's."""

    kafka: tuple[int, ...]
    controller: int
    postgres: int
    airflow: int
    spark: int = DEFAULT_PORTS["spark"]
    registry: int = DEFAULT_PORTS["registry"]

    @classmethod
    def choose(cls, choice: PortChoice, previous: Self | None = None) -> Self:
        """The ports to use: what is None stays as it was, what is 0 was free a moment ago."""
        spare = iter(free_ports(MAX_BROKERS + len(DEFAULT_PORTS)))
        before = previous or cls.counted_from(**DEFAULT_PORTS)
        others = {
            part: getattr(before, part) if asked is None else asked or next(spare)
            for part, asked in asdict(choice).items()
            if part != "kafka"
        }
        if choice.kafka is None:
            return cls(before.kafka, before.controller, **others)
        if choice.kafka == 0:
            return cls(tuple(next(spare) for _ in range(MAX_BROKERS)), next(spare), **others)
        return cls.counted_from(choice.kafka, **others)

    @classmethod
    def counted_from(cls, kafka: int, **others: int) -> Self:
        """The brokers from ``kafka`` upwards, the controller just below."""
        return cls(tuple(range(kafka, kafka + MAX_BROKERS)), kafka - 1, **others)

    def contradicts(self, choice: PortChoice) -> str | None:
        """The part that was asked for on another port than it has, as ``part 1 (asked: 2)``."""
        has = {part: getattr(self, part) for part in DEFAULT_PORTS} | {"kafka": self.kafka[0]}
        for part, asked in asdict(choice).items():
            if asked and asked != has[part]:
                return f"{part} on port {has[part]} (asked: {asked})"
        return None


def free_ports(count: int) -> list[int]:
    """That many different loopback ports which nothing listens on now, and no outgoing connection takes meanwhile.

    Where the system leaves no such range, any that are free now.
    """
    first_outgoing = int(OUTGOING_PORTS.read_text().split()[0]) if OUTGOING_PORTS.exists() else 32768  # no Linux
    own = range(FIRST_FREE_PORT, first_outgoing)
    candidates = [0] * count + random.SystemRandom().sample(own, len(own))
    ports: list[int] = []
    with ExitStack() as sockets:
        while len(ports) < count:
            opened = sockets.enter_context(socket.socket())
            with suppress(OSError):
                opened.bind((HOST, candidates.pop()))
                ports.append(int(opened.getsockname()[1]))
    return ports


def require_free(part: str, port: int) -> None:
    """Return if ``port`` can be listened on.

    Raises:
        StackError: another process listens there; the message names it if the system does.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            import psutil  # the command line reads the ports of this module for its help

            holder = "another process"
            with suppress(psutil.Error):  # another user's, or it has just ended
                for each in psutil.net_connections("tcp"):
                    if each.laddr and each.laddr.port == port and each.status == psutil.CONN_LISTEN and each.pid:
                        holder = f"pid {each.pid} ({psutil.Process(each.pid).name()})"
            variable = next((name for name in DEFAULT_PORTS if name in part.lower()), "kafka").upper()
            raise StackError(
                f"{part} needs port {port} of {HOST} and {holder} has it ({error.strerror}); "
                f"stop that, or choose another port with OFFSET_LEDGER_{variable}_PORT"
            ) from None


def accepts(port: int) -> bool:
    """Return whether something on the loopback accepts connections on ``port``."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
