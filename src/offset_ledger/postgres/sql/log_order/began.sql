-- Of a record after the start offsets of the batch's log, and of a batch after all those of other logs, it is that of the batch.
CASE WHEN {batch_id} > (SELECT CASE WHEN EXISTS (SELECT FROM offset_ledger.beginning n WHERE n.pipeline = b.pipeline AND n.topic_id <> b.topic_id)
                                    THEN (SELECT coalesce(max(o.batch_id), 0) FROM offset_ledger.batch o
                                          WHERE o.pipeline = b.pipeline AND o.topic_id <> b.topic_id)
                                    ELSE 0 END
                        FROM offset_ledger.batch b WHERE b.batch_id = {of_batch})
      AND {offset} >= (SELECT max(start_offset) FROM offset_ledger.batch b JOIN offset_ledger.beginning n USING (pipeline, topic_id)
                       WHERE b.batch_id = {of_batch})
     THEN (SELECT min(recorded_at) FROM offset_ledger.batch b JOIN offset_ledger.beginning n USING (pipeline, topic_id)
           WHERE b.batch_id = {of_batch})
     ELSE (SELECT min(recorded_at) FROM offset_ledger.beginning WHERE pipeline = {pipeline} AND topic_id = {log_at}) END
