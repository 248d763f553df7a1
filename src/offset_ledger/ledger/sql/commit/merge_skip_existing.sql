MERGE INTO {target} AS t
USING (
    SELECT DISTINCT ON ({key}) {columns}
    FROM {staging} AS s
    ORDER BY {key}, publish_at, _partition, _offset
) AS s ON {same_key}
WHEN NOT MATCHED THEN
    INSERT ({columns}, _batch_id) VALUES ({values}, %(batch_id)s)
