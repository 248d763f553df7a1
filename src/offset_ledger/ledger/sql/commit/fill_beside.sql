-- Rows whose newest state is the very record that was read again, and which the table has not, or with other values: of this
-- batch from now on, so that they are written. The merge has run, so a row that it wrote is not among them.
WITH written AS (
    UPDATE {target} AS t SET _batch_id = %(batch_id)s
    FROM {staging} AS s LEFT JOIN {table} AS u ON {same_row}
    WHERE {same_key} AND ({stored_order}) = ({order}) AND NOT s._deleted AND t._batch_id <> %(batch_id)s
      AND ({row_known} IS NULL OR {differs} OR {emptied_has_values})
    RETURNING s._partition, {whole} AS whole
)
SELECT _partition, NULL AS wrong, 0 AS inserted, count(*) FILTER (WHERE whole) AS updated, 0 AS deleted, 0 AS added
FROM written GROUP BY _partition
