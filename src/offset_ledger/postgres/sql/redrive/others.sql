SELECT format('%%s:%%s', s._partition, s._offset)
FROM (SELECT _partition, _offset FROM {rows} UNION ALL SELECT _partition, _offset FROM {refused}) AS s
WHERE NOT EXISTS (
    SELECT FROM offset_ledger.redrive_record r JOIN offset_ledger.quarantine q USING (quarantine_id)
    WHERE r.batch_id = %(batch_id)s AND q.partition = s._partition AND q."offset" = s._offset)
LIMIT 1
