WITH hits AS (
    SELECT _partition, _offset, jsonb_agg(reason ORDER BY place) AS reasons
    FROM ({failing}) AS failing GROUP BY _partition, _offset
), moved AS (
    DELETE FROM {staging} AS s USING hits AS h
    WHERE s._partition = h._partition AND s._offset = h._offset
    RETURNING {returned}, h.reasons
), kept AS (
    INSERT INTO {refused} ({columns}, reasons)
    SELECT * FROM moved RETURNING _partition
)
SELECT _partition, count(*) FROM kept GROUP BY _partition
