"""The history of a ledger, replayed through the model (docs/model.md).

ledger.py turns rows into the model's ``Database``; replay.py takes the rows of ``batch_event`` one by one, in the order
of ``event_id``, and asks ``allowed`` for the transition and the statements for the database. The first event that is
not allowed fails the run.

Replayed event by event: states, epochs, chain and cursors, open head batches, balance sheets, the manifest of the last
epoch, redrives, and prunes. Table and quarantine are compared as they are in the end.

Not compared, because the ledger keeps only the present: ranges before they were cut at a schema, manifests of earlier
epochs and of pruned batches, table, log and dismissals of the past, leader epochs, staging, attempts, files and
letters. A row's values are compared by the run's own oracle.
"""
