INSERT INTO {table} ({columns}) SELECT {values} FROM {classes} AS s WHERE {wanted}
