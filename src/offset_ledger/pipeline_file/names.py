"""Names that a pipeline file may use: those that Postgres, Kafka and Airflow accept."""

import re
from collections.abc import Collection
from hashlib import sha256

from offset_ledger.pipeline_file.located import Refused, quoted
from offset_ledger.pipeline_file.pipeline import PLAIN_NAME, in_sql

POSTGRES_NAME_BYTES = 63
IDENTIFIER = r"[a-z][a-z0-9_]{0,62}"
PIPELINE_PATTERN = rf"^{IDENTIFIER}$"
COLUMN_PATTERN = r"^[^_\x00][^\x00]{0,62}$"
_PART = rf'(?:{PLAIN_NAME}|"(?:[^"\x00]|"")+")'
VIEW_PATTERN = rf"^{_PART}$"
TABLE_PATTERN = rf"^(?:{_PART}\.)?{_PART}$"
RESERVED_SCHEMA_PATTERN = r'^"?(?:pg_[^.]*|information_schema|offset_ledger(?:_staging|_rows)?)"?\.'
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


def check_name(name: str, what: str) -> str:
    """The name, if Postgres takes it, in double quotes, uncut."""
    if (size := len(name.encode())) > POSTGRES_NAME_BYTES:
        wrong = f"the {what} {quoted(name)} has {size} bytes and Postgres keeps {POSTGRES_NAME_BYTES}"
        raise Refused(wrong, f"shorten it by {size - POSTGRES_NAME_BYTES}")
    if not name or "\0" in name:
        raise Refused(f"{quoted(name)} is not a {what}", "write at least one character, and none that is NUL")
    return name


def check_identifier(name: str, what: str) -> str:
    """The name, if Postgres takes it unquoted and uncut."""
    if not re.fullmatch(IDENTIFIER, check_name(name, what)):
        lowered = re.sub(r"[^a-z0-9_]+", "_", name.lower())
        right = f"write {lowered}" if re.fullmatch(IDENTIFIER, lowered) else "begin with a letter"
        raise Refused(f"{quoted(name)} is not a {what} of the form a-z, 0-9 and _", right)
    return name


def check_column_name(name: str, own: Collection[str] = OWN_COLUMNS) -> str:
    """Return the name if a column of the target table may have it besides the table's ``own``."""
    if name.startswith("_"):
        raise Refused("names beginning with _ are reserved for offset-ledger's own columns", "drop the underscore")
    if name in own:
        right = f"set record.{name} to its path instead, or rename the column"
        raise Refused(f"every target table already has {name}", right)
    if name in SYSTEM_COLUMNS:
        raise Refused(f"{name} is a system column of every Postgres table", "rename it")
    return check_name(name, "column name")


def cut_name(name: str, suffix: str) -> str:
    """The name with a suffix, as long as Postgres keeps; where it is cut, a part of its hash keeps it apart."""
    if len((name + suffix).encode()) <= POSTGRES_NAME_BYTES:
        return name + suffix
    suffix = f"_{sha256(name.encode()).hexdigest()[:8]}{suffix}"
    return name.encode()[: POSTGRES_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix


def split_table(text: str) -> tuple[str, str]:
    """Schema and table of ``schema.table``, in double quotes as in SQL; without a schema it is ``public``."""
    if len(parts := _parts(text, "table name")) > 2:
        raise Refused(f"{quoted(text)} has more than two parts", "write schema.table; the database is the connection's")
    table = _part(parts[-1], "table name")
    schema = _part(parts[0], "schema name") if len(parts) == 2 else "public"
    if re.match(RESERVED_SCHEMA_PATTERN, f"{schema}."):
        raise Refused(f"the schema {schema} is not for target tables", "write a schema of your own, such as public")
    return schema, table


def view_name(text: str) -> str:
    """The name of a view in the schema of the table, in double quotes as in SQL."""
    *schema, view = _parts(text, "view name")
    if schema:
        raise Refused(f"{quoted(text)} has a schema, and the view is in that of the table", f"write {view}")
    return _part(view, "view name")


def _parts(text: str, what: str) -> list[str]:
    parts: list[str] = re.findall(r'"(?:[^"]|"")*"|[^".]+', text)
    if ".".join(parts) != text or not parts:
        raise Refused(f"{quoted(text)} is not a {what}", """write orders, or '"Orders"', in double quotes as in SQL""")
    return parts


def _part(text: str, what: str) -> str:
    if text.startswith('"'):
        return check_name(text[1:-1].replace('""', '"'), what)
    if re.fullmatch(PLAIN_NAME, check_name(text, what)):
        return text
    folded = f", or {text.lower()}" if re.fullmatch(PLAIN_NAME, text.lower()) else ""
    right = f"write '{in_sql(text)}', in double quotes as in SQL{folded}"
    raise Refused(f"{quoted(text)} is not a {what} of the form a-z, 0-9 and _", right)
