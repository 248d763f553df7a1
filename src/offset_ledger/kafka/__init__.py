"""Asking Kafka: the one package through which the pipeline and the audit read from a cluster.

:func:`~offset_ledger.kafka.client.connect_kafka` gives a client whose calls retry transient errors. Each module
behind it holds one kind of question, asked once: topics, settings, offsets, groups, brokers, transactions. Records are
read by :mod:`~offset_ledger.kafka.records`.

Two packages use kafka-python themselves, and lint admits no third: ``reliability.publishing``, which writes (producers,
the making of topics, and consumers whose offsets are part of a producer's transaction), and ``reliability.labs``, whose
subject is what careless clients do.
"""
