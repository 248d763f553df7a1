-- Where a row is gone, or is back although a record has deleted it, the table is right: its event begins anew.
DELETE FROM {kept} AS t WHERE _deleted = EXISTS (SELECT FROM {table} AS u WHERE {same_row})
