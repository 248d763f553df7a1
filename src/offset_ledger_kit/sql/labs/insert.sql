INSERT INTO {table} (event_id, partition, "offset") VALUES (%s, %s, %s)
