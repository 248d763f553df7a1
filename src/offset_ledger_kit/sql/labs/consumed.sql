CREATE TABLE {table} (event_id text NOT NULL, partition integer NOT NULL, "offset" bigint NOT NULL)
