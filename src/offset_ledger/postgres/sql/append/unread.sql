-- Those of the refused records that no committed batch has read before: what became of the others is settled.
(SELECT s.* FROM {refused} AS s LEFT JOIN ({read_before}) AS b ON b.partition = s._partition
 WHERE (b.offsets @> s._offset) IS NOT TRUE) AS unread
