-- What the topic says now: of each record a row, a refusal or nothing. The SHA-256 stands in the place of each value.
CREATE TEMPORARY TABLE topic_ranges (_partition integer, from_offset bigint, until_offset bigint);
CREATE TEMPORARY TABLE topic_skipped (_partition integer, _offset bigint);
CREATE TEMPORARY TABLE topic_refused ({refused});
CREATE TEMPORARY TABLE topic_rows ({columns}, _value bytea);
