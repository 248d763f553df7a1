SELECT format('batch %%s partition %%s: %%s offsets, %%s accounted for', batch_id, partition, until_offset - from_offset,
              coalesce(inserted + updated + superseded + duplicate + deleted + quarantined + r.skipped + gap, 0))
FROM offset_ledger.batch_range r JOIN offset_ledger.batch USING (batch_id, pipeline)
WHERE pipeline = %(pipeline)s AND state = 'committed'
  AND until_offset - from_offset IS DISTINCT FROM
      inserted + updated + superseded + duplicate + deleted + quarantined + r.skipped + gap
