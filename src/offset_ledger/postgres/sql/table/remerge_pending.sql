-- The parts of the pipeline's last remerge that no committed batch has replayed; those of a topic before cannot be.
SELECT d.decision_id, part.number, part.ranges
FROM (SELECT * FROM offset_ledger.decision WHERE pipeline = %(pipeline)s AND kind = 'remerge'
      ORDER BY decision_id DESC LIMIT 1) AS d
JOIN offset_ledger.pipeline p ON p.pipeline = d.pipeline
    AND split_part(p.topic_id, '/', 1) = split_part(d.topic_id, '/', 1)
CROSS JOIN jsonb_array_elements(d.details->'parts') WITH ORDINALITY AS part (ranges, number)
WHERE NOT EXISTS (SELECT FROM offset_ledger.batch b
                  WHERE b.pipeline = d.pipeline AND b.state = 'committed' AND b.request ? 'remerge'
                    AND b.request = jsonb_build_object('remerge', d.decision_id, 'part', part.number))
ORDER BY part.number
