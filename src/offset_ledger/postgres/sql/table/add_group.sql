ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {group} offset_ledger.group_order
