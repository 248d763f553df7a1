-- Whether any pipeline of the file has committed a batch.
SELECT EXISTS (SELECT FROM offset_ledger.pipeline AS p
               WHERE file = %(file)s
                 AND (EXISTS (SELECT FROM offset_ledger.cursor AS c WHERE c.pipeline = p.pipeline)
                      OR EXISTS (SELECT FROM offset_ledger.batch AS b
                                 WHERE b.pipeline = p.pipeline AND kind <> 'head' AND state = 'committed')))
