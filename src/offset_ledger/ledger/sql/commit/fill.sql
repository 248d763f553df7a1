-- Rows whose newest state is the very record that was read again: written once more, as today's pipeline file decodes it. The
-- merge has run, so a row that it wrote does not differ. A delete marker has no values to fill.
WITH s AS MATERIALIZED (
    SELECT s.* FROM {staging} AS s JOIN {target} AS t ON {same_key}
    WHERE ({order}) = ({stored_order}) AND NOT s._deleted
      AND (ROW({stored})::record OPERATOR(pg_catalog.*<>) ROW({values})::record OR {emptied_has_values})
    ORDER BY {staged_key}
), written AS (
    UPDATE {target} AS t SET {assignments}, _batch_id = %(batch_id)s
    FROM s WHERE {same_key}
    RETURNING {staged_key}, ({stored_order}, t._batch_id) IS NOT DISTINCT FROM ({order}, %(batch_id)s) AS stands
)
SELECT s._partition,
       min({event}) FILTER (WHERE NOT coalesce(t.stands, false)) AS wrong,
       0 AS inserted,
       count(*) FILTER (WHERE t.stands) AS updated,
       0 AS deleted,
       0 AS added
FROM s LEFT JOIN written AS t ON {same_key}
GROUP BY s._partition
