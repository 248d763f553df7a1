UPDATE {table} AS t SET {assignments} FROM {classes} AS s WHERE {wanted} AND {same_key}
