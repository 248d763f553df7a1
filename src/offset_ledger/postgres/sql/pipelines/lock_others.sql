SELECT FROM offset_ledger.pipeline WHERE target = %(target)s AND file <> %(file)s FOR UPDATE
