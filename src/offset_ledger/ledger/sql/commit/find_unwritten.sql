-- An event of the batch whose row is not as it was staged, or which was deleted and has one.
SELECT min({event})
FROM {staging} AS s JOIN {target} AS t ON {same_key} JOIN {target} AS w ON {same_whole} LEFT JOIN {table} AS u ON {same_row}
WHERE ({stored_order}) = ({order}) AND t._batch_id = %(batch_id)s
  AND CASE WHEN w._deleted THEN {row_known} IS NOT NULL ELSE {row_known} IS NULL OR {differs} END
