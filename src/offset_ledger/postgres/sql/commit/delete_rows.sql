DELETE FROM {table} AS t USING {classes} AS s WHERE {wanted} AND {same_key}
