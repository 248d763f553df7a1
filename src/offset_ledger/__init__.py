"""Exactly-once batch ingestion from Kafka to Postgres."""

__version__ = "0.1.0"
