EXISTS (SELECT FROM offset_ledger.quarantine q JOIN offset_ledger.batch b USING (pipeline, topic_id)
        WHERE b.batch_id = {batch_id} AND (q.partition, q."offset") = (s._partition, s._offset) AND q.resolved_by IS NULL)
