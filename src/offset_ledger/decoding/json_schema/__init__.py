"""JSON Schema: JSON records that also have to be valid by the schema that they were written with."""
