UPDATE {table} AS t SET {assignments} WHERE {changed}
