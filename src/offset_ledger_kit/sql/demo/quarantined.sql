SELECT value, reasons->0->>'path' FROM offset_ledger.quarantine WHERE pipeline = 'flights'
