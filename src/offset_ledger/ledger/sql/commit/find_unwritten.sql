-- An event of the batch whose row is not as it was staged, or which was deleted and has one.
SELECT min({event}) FROM {staging} AS s JOIN {target} AS t ON {same_key} LEFT JOIN {table} AS u ON {same_row}
WHERE ({stored_order}) = ({order}) AND t._batch_id = %(batch_id)s
  AND CASE WHEN s._deleted THEN {row_known} IS NOT NULL
           ELSE {row_known} IS NULL OR ROW({written})::record OPERATOR(pg_catalog.*<>) ROW({row_values})::record END
