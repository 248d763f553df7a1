-- Tables with the bookkeeping of rows whose own table has none, each named as its pipeline file.
CREATE SCHEMA offset_ledger_rows;
-- The value of the only row that has one.
CREATE FUNCTION offset_ledger.first_of(anyelement, anyelement) RETURNS anyelement
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT $1';
CREATE AGGREGATE offset_ledger.only(anyelement) (SFUNC = offset_ledger.first_of, STYPE = anyelement, PARALLEL = SAFE);
