-- The record that a group of columns has its values of: a column of the bookkeeping for each group, NULL where none gave it yet.
CREATE TYPE offset_ledger.group_order AS
    (publish_at timestamptz, _topic text COLLATE "C", _partition integer, _offset bigint, _timestamp timestamptz, _batch_id bigint);
-- The group that orders each column of a pipeline file, '' for the row as a whole, since a batch committed so.
CREATE TABLE offset_ledger.column_group (
    file text NOT NULL,
    name text NOT NULL,
    group_name text NOT NULL,
    since_batch bigint NOT NULL,
    PRIMARY KEY (file, name)
);
DROP AGGREGATE offset_ledger.only(anyelement);
DROP FUNCTION offset_ledger.first_of(anyelement, anyelement);
