-- Why a text is no value of a type, by the input function of the type; NULL where it is one. For a server without
-- pg_input_error_info (before 16), and for types whose input function raises where that one wants an answer.
CREATE FUNCTION offset_ledger.input_error(value text, type text) RETURNS text LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    -- As the element of an array, for a cast cuts a text that is too long.
    EXECUTE format('SELECT %L::%s', CASE WHEN type LIKE '%[]' THEN value ELSE ARRAY[value]::text END,
                   CASE WHEN type LIKE '%[]' THEN type ELSE type || '[]' END);
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE !~ '^(0A|22|23|42601|54|P0|XX)' THEN
        RAISE;
    END IF;
    RETURN SQLERRM;
END $$;
