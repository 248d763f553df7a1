-- A pipeline with a thousand batches of a hundred partitions each, for looking at the page under load. The rows are
-- written as they would stand afterwards, so the triggers that watch over the way there are off; constraints are on.
ALTER TABLE offset_ledger.batch DISABLE TRIGGER USER;

INSERT INTO offset_ledger.pipeline (pipeline, cluster_id, topic, topic_id, target, config_hash)
VALUES (%(pipeline)s, 'cluster', 'events', 'topic-1', 'public.events', 'seed');

INSERT INTO offset_ledger.beginning (pipeline, topic_id, partition, start_offset)
SELECT %(pipeline)s, 'topic-1', p, 0 FROM generate_series(0, 99) AS p;

INSERT INTO offset_ledger.batch (pipeline, kind, state, epoch, topic_id, config_hash, dag_id, run_id, code_version,
    verdict, committed_xid, changed_by, planned_at, claimed_at, staged_at, validated_at, ended_at)
SELECT %(pipeline)s, CASE WHEN n %% 40 = 20 THEN 'replay' ELSE 'head' END,
       CASE WHEN n = 1000 THEN 'rejected' WHEN n %% 97 = 0 THEN 'abandoned' ELSE 'committed' END,
       1, 'topic-1', 'seed', 'ingest_' || %(pipeline)s, 'scheduled__' || n, 'seed',
       jsonb_build_object('success', n <> 1000, 'notes', '[]'::jsonb, 'quarantined_share', 0.001 * (n %% 7),
           'reasons', CASE WHEN n = 1000 THEN '["9.1 %% of the records were refused; the limit is 1 %%"]'::jsonb ELSE '[]' END),
       CASE WHEN n < 1000 AND n %% 97 <> 0 THEN '1'::xid8 END, 'airflow:ingest.commit',
       at, at + interval '2 s', at + interval '31 s', at + interval '34 s',
       CASE WHEN n < 1000 THEN at + (36 + n %% 9) * interval '1 s' END
FROM (SELECT n, now() - (1000 - n) * interval '15 min' - interval '4 min' AS at FROM generate_series(1, 1000) AS n) AS b;

-- k: how many thousands of offsets of each partition were committed before the batch.
INSERT INTO offset_ledger.batch_range (batch_id, pipeline, topic_id, partition, from_offset, until_offset, log_start,
    last_stable, high_watermark, leader_epoch, inserted, updated, superseded, duplicate, deleted, quarantined, skipped,
    gap, min_timestamp, max_timestamp, committed_from, committed_until, begins, follows)
SELECT b.batch_id, b.pipeline, 'topic-1', p, k * 1000, (k + 1) * 1000, greatest(0, (k - 600) * 1000),
       (k + 1) * 1000 + c.wait, (k + 1) * 1000 + c.wait + CASE WHEN p %% 10 = 0 THEN 60 ELSE 0 END, 1,
       c.inserted, 1000 - c.inserted - c.quarantined, c.none, c.none, c.none, c.quarantined, c.none, c.none,
       b.planned_at - interval '15 min', b.planned_at - interval '1 min',
       CASE WHEN b.head THEN k * 1000 END, CASE WHEN b.head THEN (k + 1) * 1000 END,
       CASE WHEN b.head AND k = 0 THEN 0 END, CASE WHEN b.head AND k > 0 THEN k * 1000 END
FROM (
    SELECT *, kind = 'head' AND state = 'committed' AS head,
           count(*) FILTER (WHERE kind = 'head' AND state = 'committed') OVER before AS k
    FROM offset_ledger.batch WHERE pipeline = %(pipeline)s
    WINDOW before AS (ORDER BY batch_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) AS b
CROSS JOIN generate_series(0, 99) AS p
CROSS JOIN LATERAL (
    SELECT (p * 37 + k * 11) %% 300 + CASE WHEN k %% 96 > 80 THEN 900 ELSE 0 END AS wait,
           CASE WHEN b.state = 'committed' THEN 700 + (k + p) %% 200 END AS inserted,
           CASE WHEN b.state = 'committed' THEN (p * 13 + k * 7) %% 12 END AS quarantined,
           CASE WHEN b.state = 'committed' THEN 0 END AS none
) AS c;

INSERT INTO offset_ledger.cursor (pipeline, topic_id, partition, next_offset, leader_epoch, batch_id)
SELECT DISTINCT ON (partition) pipeline, topic_id, partition, committed_until, 1, batch_id
FROM offset_ledger.batch_range WHERE pipeline = %(pipeline)s AND committed_until IS NOT NULL
ORDER BY partition, batch_id DESC;

INSERT INTO offset_ledger.batch_event (batch_id, at, from_state, to_state, epoch, who)
SELECT batch_id, planned_at, NULL, 'planned', 0, 'airflow:ingest.plan'
FROM offset_ledger.batch WHERE pipeline = %(pipeline)s;

ALTER TABLE offset_ledger.batch ENABLE TRIGGER USER;
