-- One range a partition, with what the last batch that read the partition saw of its log.
SELECT partition, from_offset, until_offset, log_start, last_stable, high_watermark, leader_epoch
FROM (SELECT partition, min("offset") AS from_offset, max("offset") + 1 AS until_offset
      FROM redrive_choice WHERE held_by IS NULL AND place <= %(most)s GROUP BY partition) AS chosen
JOIN LATERAL (SELECT log_start, last_stable, high_watermark, leader_epoch FROM offset_ledger.batch_range r
              WHERE (r.pipeline, r.topic_id, r.partition) = (%(pipeline)s, %(topic_id)s, chosen.partition)
              ORDER BY r.batch_id DESC LIMIT 1) AS seen ON true
ORDER BY partition
