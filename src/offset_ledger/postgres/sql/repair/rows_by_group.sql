SELECT {kept}, {group} AS _group{values}
FROM {target} AS t LEFT JOIN {table} AS u ON {same_row}
WHERE {given}
