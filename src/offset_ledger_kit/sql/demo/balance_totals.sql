SELECT sum(inserted), sum(updated + superseded + duplicate), sum(quarantined), sum(deleted + skipped)
FROM offset_ledger.batch_range WHERE pipeline = 'flights' AND committed_from IS NOT NULL
