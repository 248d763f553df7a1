SELECT batch_id, pipeline, kind, state, epoch, topic_id, slices_expected, gap_reason, rows, refused, skipped, verdict, planned_at, validated_at,
       dag_id, run_id, config_hash, late, engine, engine_reason, coalesce((request ->> 'fill')::boolean, false) AS fill, after,
       ARRAY(SELECT ARRAY[r.partition, r.from_offset, r.until_offset, r.leader_epoch] FROM offset_ledger.batch_range r
             WHERE r.batch_id = b.batch_id ORDER BY r.partition) AS ranges
FROM offset_ledger.batch b WHERE batch_id = %s
