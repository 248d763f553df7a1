-- One statement and so one snapshot: an event id that another writer inserts meanwhile is a unique violation, as in MERGE.
WITH s AS MATERIALIZED (
    -- Sorted by what the join finds, so the whole join comes before the first write: a nested loop over an empty table
    -- would scan again and again what is being written to it.
    SELECT s.*, {known} IS NOT NULL AS _known
    FROM (
        SELECT DISTINCT ON ({key}) {columns}
        FROM {staging} AS s
        ORDER BY {key}, publish_at, _partition, _offset
    ) AS s LEFT JOIN {target} AS t ON {same_key}
    ORDER BY {known} IS NOT NULL, {staged_key}
), inserted AS (
    INSERT INTO {target} AS t ({columns}, _batch_id)
    SELECT {values}, %(batch_id)s FROM s WHERE NOT s._known
    RETURNING {stored_key}, {stored_order}, t._batch_id
), written AS (
    -- INSERT returns the row as it was stored: a trigger may have made another one of it, even of another event id.
    SELECT 'INSERT' AS action, s._partition, s._deleted, {whole} AS whole,
           CASE WHEN ({stored_order}, t._batch_id)
                     IS DISTINCT FROM ({order}, %(batch_id)s) THEN {stored_event} END AS wrong
    FROM inserted AS t LEFT JOIN s ON {same_key}
)
{counts}
