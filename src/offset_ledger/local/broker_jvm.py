"""The JVM of a Kafka broker: its options, its class path, and the archive with which it starts in half the time."""

from __future__ import annotations

import os
from collections.abc import Sequence

from offset_ledger.local.class_archive import ClassArchive, class_archive
from offset_ledger.local.jars import kafka_jars
from offset_ledger.local.java import JavaRuntime
from offset_ledger.local.layout import cache_root

_OPTIONS = ("-Xms64m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")


def kafka_command(java: JavaRuntime, program: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """The command that runs a class of Kafka with its arguments; ``options`` are more options of the JVM."""
    archive = kafka_archive(java)
    mapped = archive.options if archive else ()
    return [java.executable, *_OPTIONS, *mapped, *options, "-cp", _class_path(java), *program]


def kafka_archive(java: JavaRuntime) -> ClassArchive | None:
    """The archive of a broker's classes for this Java; None where it can have none."""
    return class_archive(cache_root() / "classes", "kafka", java.home, _class_path(java))


def _class_path(java: JavaRuntime) -> str:
    return os.pathsep.join(map(str, kafka_jars(java)))
