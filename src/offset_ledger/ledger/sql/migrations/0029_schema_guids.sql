-- The schemas that records name by GUID, in a header, as the registry had them when they were first met. A row never changes.
CREATE TABLE offset_ledger.schema_guid (
    pipeline  text NOT NULL,
    guid      uuid NOT NULL,
    schema_id bigint NOT NULL,
    PRIMARY KEY (pipeline, guid),
    FOREIGN KEY (pipeline, schema_id) REFERENCES offset_ledger.writer_schema ON DELETE CASCADE
);
