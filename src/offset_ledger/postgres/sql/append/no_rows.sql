-- Of rows that are appended without their coordinates.
(SELECT NULL::text AS _topic, NULL::integer AS _partition, NULL::bigint AS _offset, NULL::bigint AS _batch_id, NULL::timestamptz AS publish_at,
        NULL::boolean AS _deleted WHERE false)
