SELECT _partition, _offset, {place} AS place, {reason}::jsonb AS reason FROM ({failing}) AS {name}
