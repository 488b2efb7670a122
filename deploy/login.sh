#!/bin/sh
# The servers' login: in hermes_app, and in nothing else, so that row-level security holds for it. Runs once, when the
# database is made; `hermes storage init` comes after it.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$SERVER_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE hermes_app NOLOGIN NOBYPASSRLS;
CREATE ROLE server LOGIN PASSWORD :'password' IN ROLE hermes_app;
SQL
