-- In the pipelines of the file that say another moment, and in the one that asks.
UPDATE offset_ledger.pipeline SET ordered_by = %(moment)s
WHERE file = %(file)s AND (pipeline = %(pipeline)s OR ordered_by <> %(moment)s)
