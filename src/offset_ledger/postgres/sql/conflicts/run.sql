ROW(row_number() OVER (PARTITION BY {key} ORDER BY {by_rule})
    - row_number() OVER (PARTITION BY {key}, {holds}, {values} ORDER BY {by_rule}), {values})::text
