SELECT _partition, _offset, reason FROM pg_temp.conflicting WHERE place = {place}
