-- Those staged rows stand that the bookkeeping has of this batch now.
MERGE INTO {table} AS u
USING (
    SELECT {staged_columns}
    FROM {staging} AS s JOIN {target} AS t ON {same_key}
    WHERE NOT s._deleted AND ({stored_order}) = ({order}) AND t._batch_id = %(batch_id)s
    ORDER BY {staged_key}
) AS s ON {same_row}
WHEN MATCHED THEN UPDATE SET {row_assignments}
WHEN NOT MATCHED THEN INSERT ({row_columns}) VALUES ({row_values})
