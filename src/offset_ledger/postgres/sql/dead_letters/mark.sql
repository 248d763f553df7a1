INSERT INTO offset_ledger.dead_letter_mark AS m (pipeline, topic_id, partition, next_offset) VALUES %s
ON CONFLICT (pipeline, topic_id, partition) DO UPDATE SET next_offset = greatest(m.next_offset, excluded.next_offset)
