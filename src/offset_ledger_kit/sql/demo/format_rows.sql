SELECT {columns} FROM {table}
