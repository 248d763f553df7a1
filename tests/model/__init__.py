"""The model of the protocol (docs/model.md), and the code that each of its actions stands for, in src/offset_ledger.

- ``produce``, ``commit transaction``, ``abort transaction``, ``compact``, ``tick``, ``expire``, ``truncate``,
  ``recreate``, ``add partition``, ``add topic``: producers, brokers and administrators; tick: delete.retention.ms
  passes
- ``look``: snapshot_topic (plan/step.py), which checks the log against the cursors
- ``plan``: _plan_next (plan/step.py), with plan_head (plan/head.py) by any limit
- ``plan ahead``: the same, after the open head batch (plan_ahead in plan/step.py); the trigger batch_settles_ahead
  (0034_batch_ahead.sql) gives such a batch up, or makes it the open one
- ``claim``: claim (stage/claim.py), after _read_kept (stage/step.py) and check_topic (stage/step.py)
- ``stage slice``: write (stage/slices.py), with begin_slice.sql; a redrive reads records.sql
- ``seal``, ``seal, but tombstones may be gone``: seal (stage/claim.py), with check_ranges (stage/step.py),
  check_manifest (ledger/completeness.py) and find_late (stage/claim.py)
- ``take up``: a step that goes on without a claim: is_whole (ledger/completeness.py), _is_last_copy (stage/step.py)
- ``validate``, ``reject``: _settle (validate/step.py), with the inherited approval of _reapply_approval
  (validate/step.py)
- ``commit``: _commit (commit/step.py): lock_cursors (commit/step.py), sealed_counts (ledger/completeness.py),
  classify.sql, the writes of commit/classes.py, find_wrong.sql, quarantine.sql, settle.sql, close
  (model/balance_sheet.py), move_cursor.sql; with merge: append read_before.sql and append/classes.sql
- ``fail to classify``: classify.sql ends with an error, for lack of temporary space for example
- ``lose answer``, ``resolve``: the connection is lost during COMMIT; resolve (commit/step.py)
- ``end``: a step that raises: Fenced, IncompleteStaging, LostRange and the like
- ``approve``, ``abandon``: decide_batch (ledger/decisions.py)
- ``approve tombstones``: approve_tombstones (decisions/tombstones.py)
- ``skip``, ``accept topic``: skip_lost (decisions/losses.py), accept_topic (decisions/accept_topic.py) with
  find_log_change (decisions/accept_topic.py)
- ``replay``, ``redrive``: plan_replay (plan/step.py), insert_redrive (ledger/redrive.py)
- ``dismiss``, ``undo dismissal``: dismiss (repair/redrive.py)
- ``edit``: the pipeline file gets another order, a wider column or a decoder that takes more; change_target
  (table/change.py) and in_order (ledger/row_order.py) act on it
- ``remerge``, ``replay part``: restate (table/restate.py), replay_parts (run/remerge.py)
- ``prune``, ``prune deletes``: sum_up (ledger/prune.py), with delete_records.sql; delete_markers
  (repair/delete_markers.py)
- ``regroup``: the pipeline file gets other groups of columns; _keep_groups (table/change.py) acts on it
- ``fill``: a replay that also writes rows again (classify.sql)
- ``delete by hand``, ``lose comments``: somebody deletes a row of the table, or a comment of the bookkeeping
- ``kill``, ``crash``: a process dies; Postgres crashes: staging is empty, and slices that no seal has made durable
  may be out of the manifest
- ``replicate``, ``failover``, ``restore``: db becomes what it was
- ``read back``, ``send``, ``mark``: _read_back (repair/dead_letters.py), _deliver_some (repair/dead_letters.py), mark
  (ledger/dead_letters.py)
- ``load``, ``ingest``, ``run``: several of the above in one
"""
