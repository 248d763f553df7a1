SELECT _partition, _offset FROM pg_temp.conflicting WHERE place = {place}
