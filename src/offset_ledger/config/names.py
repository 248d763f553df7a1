"""Names that a pipeline file may use: what Postgres, Kafka and Airflow accept, narrowed to what needs no quoting."""

import re
from collections.abc import Collection

from offset_ledger.config.located import Refused, quoted

POSTGRES_NAME_BYTES = 63
IDENTIFIER = r"[a-z][a-z0-9_]{0,62}"
PIPELINE_PATTERN = rf"^{IDENTIFIER}$"
COLUMN_PATTERN = rf"^{IDENTIFIER}$"
TABLE_PATTERN = rf"^(?:{IDENTIFIER}\.)?{IDENTIFIER}$"
RESERVED_SCHEMA_PATTERN = r"^(?:pg_[a-z0-9_]*|information_schema|offset_ledger(?:_staging|_rows)?)\."
CONNECTION_PATTERN = r"^[A-Za-z0-9_.-]{1,200}$"
TOPIC_PATTERN = r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$"
SUITE_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$"
DAILY_FOLDER = "_daily"  # among the report folders of the pipelines, none of which begins with _
OWN_COLUMNS = ("event_id", "publish_at")
BOOKKEEPING = (
    "publish_at",
    "_topic",
    "_partition",
    "_offset",
    "_timestamp",
    "_key",
    "_headers",
    "_schema_id",
    "_batch_id",
)
SYSTEM_COLUMNS = ("cmax", "cmin", "ctid", "tableoid", "xmax", "xmin")
RESERVED_COLUMNS = (*OWN_COLUMNS, *SYSTEM_COLUMNS)
MAX_COLUMNS = 1589  # of the 1600 of a Postgres table, up to eleven are offset-ledger's own


def check_identifier(name: str, what: str) -> str:
    """The name, if Postgres takes it unquoted and uncut."""
    if (size := len(name.encode())) > POSTGRES_NAME_BYTES:
        wrong = f"the {what} {quoted(name)} has {size} bytes and Postgres keeps {POSTGRES_NAME_BYTES}"
        raise Refused(wrong, f"shorten it by {size - POSTGRES_NAME_BYTES}")
    if not re.fullmatch(IDENTIFIER, name):
        lowered = re.sub(r"[^a-z0-9_]+", "_", name.lower())
        right = f"write {lowered}" if re.fullmatch(IDENTIFIER, lowered) else "begin with a letter"
        raise Refused(f"{quoted(name)} is not a {what} of the form a-z, 0-9 and _", right)
    return name


def check_column_name(name: str, own: Collection[str] = OWN_COLUMNS) -> str:
    """The name, if a column of the target table may have it beside the table's ``own``."""
    if name.startswith("_"):
        raise Refused("names beginning with _ are reserved for offset-ledger's own columns", "drop the underscore")
    if name in own:
        right = f"set record.{name} to its path instead, or rename the column"
        raise Refused(f"every target table already has {name}", right)
    if name in SYSTEM_COLUMNS:
        raise Refused(f"{name} is a system column of every Postgres table", "rename it")
    return check_identifier(name, "column name")


def split_table(text: str) -> tuple[str, str]:
    """Schema and table of ``schema.table``; the schema is ``public`` where none is given."""
    schema, _, table = text.rpartition(".")
    if "." in schema:
        raise Refused(f"{quoted(text)} has more than two parts", "write schema.table; the database is the connection's")
    check_identifier(table, "table name")
    schema = check_identifier(schema, "schema name") if "." in text else "public"
    if re.match(RESERVED_SCHEMA_PATTERN, f"{schema}."):
        raise Refused(f"the schema {schema} is not for target tables", "write a schema of your own, such as public")
    return schema, table
