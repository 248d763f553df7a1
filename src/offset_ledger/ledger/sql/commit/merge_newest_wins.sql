MERGE INTO {target} AS t
USING (
    SELECT DISTINCT ON ({key}) {columns}
    FROM {staging} AS s
    ORDER BY {key}, publish_at DESC, _partition DESC, _offset DESC
) AS s ON {same_key}
WHEN MATCHED AND ({order}) > ({stored_order})
    THEN UPDATE SET {assignments}, _batch_id = %(batch_id)s
WHEN NOT MATCHED THEN
    INSERT ({columns}, _batch_id) VALUES ({values}, %(batch_id)s)
