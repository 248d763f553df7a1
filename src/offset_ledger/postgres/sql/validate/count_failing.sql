SELECT count(*) FROM ({failing}) AS failing
