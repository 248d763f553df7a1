"""Kafka: the one place that asks a cluster about topics and offsets."""
