"""The model of the protocol (docs/model.md), and the code that each of its actions stands for, in src/offset_ledger.

- ``produce``, ``commit transaction``, ``abort transaction``, ``compact``, ``tick``, ``expire``, ``truncate``,
  ``recreate``, ``add partition``, ``add topic``: producers, brokers and administrators; tick: delete.retention.ms
  passes
- ``look``: snapshot_topic (steps/plan/step.py), which checks the log against the cursors
- ``plan``: _plan_next (steps/plan/step.py), with plan_head (steps/plan/head.py) by any limit
- ``plan ahead``: the same, after the open head batch (plan_ahead in steps/plan/step.py); the trigger
  batch_settles_ahead (0001_ledger.sql) gives such a batch up, or makes it the open one
- ``claim``: claim (steps/stage/claim.py), after _read_kept (steps/stage/step.py) and check_topic
  (steps/stage/step.py)
- ``stage slice``: write (steps/stage/slices.py), with begin_slice.sql; a redrive reads records.sql
- ``seal``, ``seal, but tombstones may be gone``: seal (steps/stage/claim.py), with check_ranges
  (steps/stage/step.py), check_manifest (postgres/ledger/completeness.py) and find_late (steps/stage/claim.py)
- ``take up``: a step that goes on without a claim: is_whole (postgres/ledger/completeness.py), _is_last_copy
  (steps/stage/step.py)
- ``validate``, ``reject``: _settle (steps/validate/step.py), with the inherited approval of _reapply_approval
  (steps/validate/step.py)
- ``commit``: _commit (steps/commit/step.py): lock_cursors (steps/commit/step.py), sealed_counts
  (postgres/ledger/completeness.py), classify.sql, the writes of steps/commit/classes.py, find_wrong.sql,
  quarantine.sql, settle.sql, close (model/balance_sheet.py), move_cursor.sql; with merge: append read_before.sql
  and append/classes.sql
- ``fail to classify``: classify.sql ends with an error, for lack of temporary space for example
- ``lose answer``, ``resolve``: the connection is lost during COMMIT; resolve (steps/commit/step.py)
- ``end``: a step that raises: Fenced, IncompleteStaging, LostRange and the like
- ``approve``, ``abandon``: decide_batch (postgres/ledger/decisions.py)
- ``approve tombstones``: approve_tombstones (steps/decide/tombstones.py)
- ``skip``, ``accept topic``: skip_lost (steps/decide/answers.py), accept_topic (steps/decide/accept_topic.py) with
  find_log_change (steps/decide/accept_topic.py)
- ``replay``, ``redrive``: plan_replay (steps/plan/step.py), insert_redrive (postgres/ledger/redrive.py)
- ``dismiss``, ``undo dismissal``: dismiss (steps/run/redrive.py)
- ``edit``: the pipeline file gets another order, a wider column or a decoder that takes more; change_target
  (postgres/table/change.py) and in_order (postgres/ledger/row_order.py) act on it
- ``remerge``, ``replay part``: restate (postgres/table/restate.py), replay_parts (steps/run/remerge.py)
- ``prune``, ``prune deletes``: sum_up (postgres/ledger/prune.py), with delete_records.sql; delete_markers
  (operations/repair/prune.py)
- ``regroup``: the pipeline file gets other groups of columns; _keep_groups (postgres/table/change.py) acts on it
- ``fill``: a replay that also writes rows again (classify.sql)
- ``delete by hand``, ``lose comments``: somebody deletes a row of the table, or a comment of the bookkeeping
- ``kill``, ``crash``: a process dies; Postgres crashes: staging is empty, and slices that no seal has made durable
  may be out of the manifest
- ``replicate``, ``failover``, ``restore``: db becomes what it was
- ``read back``, ``send``, ``mark``: _read_back (steps/report/dead_letters.py),
  _deliver_some (steps/report/dead_letters.py), mark
  (postgres/ledger/dead_letters.py)
- ``load``, ``ingest``, ``run``: several of the above in one
"""
