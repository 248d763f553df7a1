"""Topic and table as Airflow assets, with URIs that OpenLineage understands where the connections are known."""

import os
from urllib.parse import quote

from airflow.sdk import Asset

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection, environment_name, parse_connection
from offset_ledger.outside.kafka.connection import bootstrap_servers
from offset_ledger.pipeline_file.pipeline import Pipeline


def topic_assets(pipeline: Pipeline) -> list[Asset]:
    """``kafka://host:port/topic`` of the first bootstrap server, for each topic that the pipeline file names."""
    source = pipeline.source
    connection = _connection(source.connection)
    try:
        cluster = kafka_namespace(connection) if connection else None
    except ConfigurationError:
        cluster = None
    names = {topic: f"{source.connection}/{topic}" for topic in source.topics or filter(None, [source.topic])}
    uris = {topic: f"{cluster}/{topic}" if cluster else _unknown(name) for topic, name in names.items()}
    return [Asset(name=name, uri=uris[topic]) for topic, name in names.items()]


def table_asset(pipeline: Pipeline) -> Asset:
    """``postgres://host:port/database/schema/table``."""
    target = pipeline.target
    connection = _connection(target.connection)
    name = f"{target.connection}/{target.name}"
    path = f"{quote(target.schema, safe='')}/{quote(target.table, safe='')}"
    if not (connection and connection.schema):
        return Asset(name=name, uri=_unknown(quote(name)))
    database = f"{postgres_namespace(connection)}/{connection.schema}"
    return Asset(name=name, uri=f"{database}/{path}")


def kafka_namespace(connection: Connection) -> str:
    """``kafka://host:port`` of the first bootstrap server, as OpenLineage names a cluster.

    Raises:
        ConfigurationError: the connection has no bootstrap.servers.
    """
    return f"kafka://{bootstrap_servers(connection).split(',')[0].strip()}"


def postgres_namespace(connection: Connection) -> str:
    """``postgres://host:port``, as OpenLineage names a server."""
    host = "localhost" if not connection.host or connection.host.startswith("/") else connection.host
    return f"postgres://{host}:{connection.port or 5432}"


def _connection(conn_id: str) -> Connection | None:
    """The connection, where the environment has it: a DAG is parsed without asking Airflow's database."""
    raw = os.environ.get(environment_name(conn_id))
    try:
        return parse_connection(conn_id, raw) if raw else None
    except ConfigurationError:
        return None


def _unknown(name: str) -> str:
    return f"offset-ledger://{name}"
