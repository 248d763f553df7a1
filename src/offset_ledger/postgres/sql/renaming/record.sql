INSERT INTO offset_ledger.renaming (former, name, target, who, why)
SELECT %(former)s, %(name)s, max(target), %(who)s, %(why)s FROM offset_ledger.pipeline WHERE file = %(former)s
RETURNING renaming_id, target
