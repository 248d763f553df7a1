SELECT event_id FROM {table}
