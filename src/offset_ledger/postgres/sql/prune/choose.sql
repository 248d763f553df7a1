-- Which batches go in this transaction, and the head batch that stands for each afterwards, itself among them.
CREATE TEMPORARY TABLE prune_choice ON COMMIT DROP AS
SELECT * FROM unnest(%(batch_ids)s::bigint[], %(summaries)s::bigint[], %(heads)s::boolean[]) AS c (batch_id, summary, head)
