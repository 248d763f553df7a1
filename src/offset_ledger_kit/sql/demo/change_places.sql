SELECT carrier, number, day, origin, _partition, _offset FROM offset_ledger_rows.flights_changes
