-- Who holds each of many words, in one statement that is planned once: a question has about a dozen words, and planning
-- a look into the index takes several times as long as the look. The lengths weigh the messages next.
GRANT SELECT (length) ON messages TO hermes_engine;
CREATE FUNCTION holders(column_name text, queries tsquery[], most int)
    RETURNS TABLE (number bigint, ids bigint[], lengths int[])
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hermes, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT q.number, found.ids, found.lengths FROM unnest($2) WITH ORDINALITY AS q(query, number),
            LATERAL (SELECT array_agg(m.id) AS ids, array_agg(m.length) AS lengths FROM (
                SELECT id, length FROM messages WHERE person = $1 AND %I @@ q.query ORDER BY id DESC LIMIT $3
            ) AS m) AS found',
        CASE column_name WHEN 'tools' THEN 'tools' ELSE 'said' END)
        USING person(), queries, most;
END $$;
ALTER FUNCTION holders OWNER TO hermes_engine;
REVOKE ALL ON FUNCTION holders FROM public;
GRANT EXECUTE ON FUNCTION holders TO hermes_app;
