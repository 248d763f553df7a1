INSERT INTO offset_ledger.batch_range
    (batch_id, pipeline, topic_id, partition, from_offset, until_offset, log_start, last_stable, high_watermark, leader_epoch)
VALUES %s
