SELECT left({event}, 100), _partition, _offset FROM {staging} AS s ORDER BY {size} DESC LIMIT 1
