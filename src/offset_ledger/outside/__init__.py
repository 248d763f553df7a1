"""Servers outside of Postgres: Kafka, a schema registry, HTTP and Spark, each in one place; connections by id."""
