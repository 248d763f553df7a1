-- A pipeline file may read several topics: each has a pipeline of its own, FILE@TOPIC, and all fill one table.
ALTER TABLE offset_ledger.pipeline DROP CONSTRAINT pipeline_pipeline_check;
ALTER TABLE offset_ledger.pipeline ADD CONSTRAINT pipeline_pipeline_check
    CHECK (pipeline ~ '^[a-z][a-z0-9_]{0,62}(@[A-Za-z0-9._-]{1,249})?$');
ALTER TABLE offset_ledger.pipeline ADD COLUMN file text GENERATED ALWAYS AS (split_part(pipeline, '@', 1)) STORED;
CREATE INDEX pipeline_by_file ON offset_ledger.pipeline (file);

-- Which file fills a table. The merge order (publish_at, topic, partition, offset) holds for the pipelines of one file only.
CREATE TABLE offset_ledger.target_table (
    target text PRIMARY KEY,
    file   text NOT NULL,
    UNIQUE (target, file)
);
INSERT INTO offset_ledger.target_table (target, file) SELECT target, file FROM offset_ledger.pipeline WHERE target IS NOT NULL;
ALTER TABLE offset_ledger.pipeline DROP CONSTRAINT pipeline_target_key;
ALTER TABLE offset_ledger.pipeline ADD CONSTRAINT one_file_for_each_table
    FOREIGN KEY (target, file) REFERENCES offset_ledger.target_table (target, file);
CREATE INDEX pipeline_by_target ON offset_ledger.pipeline (target);

-- The topics that a file has been found to read. `later` are those of a pattern that were created after its first plan.
CREATE TABLE offset_ledger.subscribed_topic (
    file     text NOT NULL,
    topic    text NOT NULL,
    later    boolean NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (file, topic)
);
