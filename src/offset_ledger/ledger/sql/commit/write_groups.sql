-- For each event the groups of columns that the bookkeeping has of this batch now; the others stay as they are. A delete that is
-- older than the row has emptied the groups that no newer record said anything about.
MERGE INTO {table} AS u
USING (
    SELECT {pivoted_columns}
    FROM {staging} AS s JOIN {target} AS t ON {same_key} JOIN {target} AS w ON {same_whole}
    WHERE ({stored_order}) = ({order}) AND t._batch_id = %(batch_id)s AND NOT w._deleted
    GROUP BY {row_key}
    ORDER BY {row_key}
) AS s ON {same_row}
WHEN MATCHED THEN UPDATE SET {row_assignments}
WHEN NOT MATCHED AND {takes_whole} THEN INSERT ({row_columns}) VALUES ({row_values})
