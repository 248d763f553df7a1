ALTER TABLE topic_rows ALTER {name} TYPE {type} USING {name}::{type}
