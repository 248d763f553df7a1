-- The log whose record a batch has read at an offset: the only one, or that of the batch, or an earlier one if a truncation has
-- left the offset.
coalesce((SELECT min(topic_id) FROM offset_ledger.beginning WHERE pipeline = {pipeline} HAVING min(topic_id) = max(topic_id)),
         (SELECT coalesce((SELECT n.topic_id FROM offset_ledger.beginning n
                           WHERE n.pipeline = b.pipeline AND n.partition = {partition} AND n.start_offset <= {offset}
                             AND split_part(n.topic_id, '/', 1) = split_part(b.topic_id, '/', 1)
                             AND (length(n.topic_id), n.topic_id) <= (length(b.topic_id), b.topic_id)
                           ORDER BY length(n.topic_id) DESC, n.topic_id DESC LIMIT 1), split_part(b.topic_id, '/', 1))
          FROM offset_ledger.batch b WHERE b.batch_id = offset_ledger.stands_for({pipeline}, {batch_id})))
