-- In the pipeline that asks, and in those of its file that say something else.
UPDATE offset_ledger.pipeline SET key_places = %(places)s
WHERE file = %(file)s AND key_places IS DISTINCT FROM %(places)s
  AND (pipeline = %(pipeline)s OR key_places IS NOT NULL)
