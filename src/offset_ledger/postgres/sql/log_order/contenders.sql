-- Staged rows as the log orders them, each with the moment that it has there, and whether it is newer than the stored row.
(SELECT {columns}, s._at AS publish_at, ({order}) > ({stored_order}) AS _newer
 FROM {in_order} AS s LEFT JOIN {target} AS t ON {same_key})
