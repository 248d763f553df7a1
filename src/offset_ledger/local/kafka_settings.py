"""The settings of the local brokers: one to three of them, on a machine that does other things too."""

from __future__ import annotations

from pathlib import Path

from offset_ledger.local.layout import HOST

_SMALL_MACHINE = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    # A killed broker may come back only after its session: 9 s by default.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    # Minutes by default: retention, compaction and abandoned transactions are to be seen within a test.
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


def broker_settings(node: int, brokers: int, address: str, controller_port: int, data: Path) -> dict[str, str]:
    """The settings of one broker, under Kafka's names; node 1 is the controller too."""
    controller, client = f"CONTROLLER://{HOST}:{controller_port}", f"PLAINTEXT://{address}"
    # Three controllers would lose their quorum with two brokers, and clients would see nothing but timeouts.
    both = node == 1
    return {
        "node.id": str(node),
        "process.roles": "broker,controller" if both else "broker",
        "listeners": f"{client},{controller}" if both else client,
        "advertised.listeners": client,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(data),
        **_copies(str(brokers), str(min(2, brokers))),
        **_SMALL_MACHINE,
    }


def _copies(replicas: str, in_sync: str) -> dict[str, str]:
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }
