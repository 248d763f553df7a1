-- Values are compared by their SHA-256.
WITH records AS (
    SELECT _partition, _offset, _timestamp, _key, _headers, _value FROM topic_rows
    UNION ALL SELECT _partition, _offset, _timestamp, _key, _headers, _value FROM topic_refused
)
SELECT format('partition %%s offset %%s: in quarantine, but %%s', q.partition, q."offset",
              coalesce(format('%%s is %%s there and %%s in the topic%%s', c.name, coalesce(left(c.actual, 60), 'NULL'),
                              coalesce(left(c.expected, 60), 'NULL'), {cut_header_name}), 'the topic has no such record')) AS line,
       false AS earlier
FROM offset_ledger.quarantine q
JOIN topic_ranges AS r ON r._partition = q.partition AND q."offset" >= r.from_offset AND q."offset" < r.until_offset
LEFT JOIN records AS s ON s._partition = q.partition AND s._offset = q."offset"
LEFT JOIN topic_skipped AS skipped ON skipped._partition = q.partition AND skipped._offset = q."offset"
LEFT JOIN LATERAL (VALUES ('timestamp', q."timestamp"::text, s._timestamp::text), ('key', q.key::text, s._key::text),
                          ('headers', q.headers::text, s._headers::text),
                          ('the SHA-256 of value', sha256(q.value)::text, s._value::text)) AS c (name, actual, expected)
       ON s._offset IS NOT NULL AND c.actual IS DISTINCT FROM c.expected
WHERE (q.pipeline, q.topic_id) = (%(pipeline)s, %(topic_id)s)
  AND (c.name IS NOT NULL OR NOT %(compacted)s AND s._offset IS NULL AND skipped._offset IS NULL)
