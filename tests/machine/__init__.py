"""The steps of the model with the real code, on a real Postgres (docs/model.md).

After each step mapping.py reads ledger, target and quarantine into the ``db`` of the model.

- worlds: those of the model, and four in which everything may happen, too large to be walked (worlds.py)
- Kafka: a value behind ``connect_kafka`` and the ``Reader`` of ``stage`` (kafka.py), in some walks a real broker whose
  logs are not truncated (broker.py); decoding, COPY and all that follows are real
- attempts: threads, of which one runs at a time. They stop at failpoints, before the transactions of gate, commit and
  ``resolve``, and before a delivery takes its transactional id (actors.py)
- a killed process: an exception that nothing catches, at a stop or at ``slice_copied``, ``before_merge`` and
  ``after_merge``
- a database that goes back: ledger, target, sequences and staging tables are again as they were at ``replicate``;
  sessions are ended (earlier.py)
- dead letters: delivery, outbox and marks are real; the topic is a value (letters.py), in some walks a real one
- a crash of Postgres: sessions are ended, the UNLOGGED tables emptied, and the slices deleted that the model says were
  not durable
- the gate: it has no suite, so only the share of refused records rejects

Not compared, because only one side has it: moments within a day, ``moved_by``, the columns of an empty table, slices of
older epochs, the pipeline file of a batch that nobody decoded, and what exactly was approved. Ranges that a prune has
summed up are compared by their offsets and the sum of their sheets, and staging by the manifest alone. The machine has
no retired topics, no schema boundaries, no views, and no two transactions at one moment.
"""
