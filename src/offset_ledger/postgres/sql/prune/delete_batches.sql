-- What refers to the batches that go: to the one that stands for them now, or away with it.
UPDATE offset_ledger.cursor AS k SET batch_id = c.summary FROM prune_choice c WHERE k.batch_id = c.batch_id;
DELETE FROM offset_ledger.slice AS s USING prune_choice c WHERE s.batch_id = c.batch_id;
DELETE FROM offset_ledger.batch_profile AS p USING prune_choice c WHERE p.batch_id = c.batch_id;
DELETE FROM offset_ledger.batch_event AS e USING prune_choice c WHERE e.batch_id = c.batch_id AND c.batch_id <> c.summary;
DELETE FROM offset_ledger.redrive AS r USING prune_choice c WHERE r.batch_id = c.batch_id;
DELETE FROM offset_ledger.batch AS b USING prune_choice c WHERE b.batch_id = c.batch_id AND c.batch_id <> c.summary;
DROP TABLE prune_choice
