SELECT current_setting('server_encoding'), pg_is_in_recovery(), pg_backend_pid(), clock_timestamp()
