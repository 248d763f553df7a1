ROW(t.publish_at, {topic}, t._partition, t._offset, t._timestamp, t._batch_id)::offset_ledger.group_order
