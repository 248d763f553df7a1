INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {values} FROM {classes} AS s WHERE {wanted}
