SELECT format('event %%s of partition %%s offset %%s is not in the table: offset-ledger replay --fill writes it again',
              {stored_event}, t._partition, t._offset)
FROM {target} AS t WHERE NOT t._deleted AND NOT EXISTS (SELECT FROM {table} AS u WHERE {same_row})
UNION ALL
SELECT format('event %%s was deleted by partition %%s offset %%s, and is in the table', {stored_event}, t._partition, t._offset)
FROM {target} AS t WHERE t._deleted AND EXISTS (SELECT FROM {table} AS u WHERE {same_row})
UNION ALL
-- A unique index of a partitioned table has its partition columns too, and so does not keep the key alone apart.
SELECT format('event %%s stands %%s times in the table', min({stored_event}), count(*))
FROM {target} AS t JOIN {table} AS u ON {same_row} GROUP BY {stored_key} HAVING count(*) > 1
