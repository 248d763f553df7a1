"""Kafka: the one place that asks a cluster what a topic is and which offsets it has."""
