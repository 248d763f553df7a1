"""The errors of this package by Postgres's SQLSTATE, with advice for each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg2
from psycopg2 import errors as pg

from offset_ledger import errors
from offset_ledger.errors import OffsetLedgerError


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a SQLSTATE: ``text`` goes on from the place, ``advice`` says what to do."""

    kind: type[OffsetLedgerError]
    text: str
    advice: str


RAISED = Meaning(
    errors.LedgerViolation,
    "refuses a row by a trigger or function",
    "correct or drop that, make what it asks for an expectation that quarantines, or abandon the batch",
)
REFUSED = Meaning(
    errors.LedgerViolation,
    "refuses a row",
    "its constraints ask for more than the pipeline file declares: drop the constraint, or make it an expectation "
    "that quarantines",
)
_INVARIANT = Meaning(
    errors.LedgerViolation,
    "keeps an invariant of the ledger",
    "run offset-ledger verify PIPELINE, keep its output, and pause the pipeline",
)
_TIMEOUT = "raise it for this login (ALTER ROLE ... SET), or in `options` of the connection's extra"

# By SQLSTATE, or by its class, which is the first two characters.
_MEANINGS: Mapping[str, Meaning] = {
    "09": RAISED,
    "0A": Meaning(
        errors.TargetMismatch, "cannot be merged into", "a target table can have no rules; drop what it names"
    ),
    "23": REFUSED,
    "25006": Meaning(
        errors.DatabaseUnavailable,
        "only reads",
        "the connection leads to a standby, or default_transaction_read_only is set there",
    ),
    "25P04": Meaning(errors.ConfigurationError, "takes longer than transaction_timeout allows", _TIMEOUT),
    "38": RAISED,
    "39": RAISED,
    "40": Meaning(errors.TransientError, "has given way to another transaction", "run the step again"),
    "42501": Meaning(
        errors.AccessDenied, "does not let the login do this", "docs/production.md has the rights that are needed"
    ),
    "44": Meaning(errors.LedgerViolation, "refuses a row by the check option of a view", "let the target be a table"),
    "53100": Meaning(errors.DatabaseFull, "has a full disk", "make room on it, then run the step again"),
    "53200": Meaning(
        errors.DatabaseUnavailable,
        "is out of memory",
        "make batches smaller (limits.records_per_batch), or give the server more",
    ),
    "53300": Meaning(
        errors.DatabaseUnavailable, "has no connection left", "raise max_connections, or let fewer steps run at once"
    ),
    "53400": Meaning(
        errors.ConfigurationError,
        "has reached a limit of its configuration",
        "raise it, or make batches smaller (limits.records_per_batch)",
    ),
    "54": Meaning(
        errors.LedgerViolation,
        "cannot hold a row of this size",
        "drop the index or make it one over a hash of the column, or declare the column as varchar(n), which "
        "quarantines such records",
    ),
    "55000": Meaning(
        errors.TargetMismatch,
        "is not in the state that this needs",
        "change what it names; of a published table run ALTER TABLE ... REPLICA IDENTITY USING INDEX its unique index, "
        "or REPLICA IDENTITY FULL",
    ),
    "55P03": Meaning(
        errors.TransientError, "does not give a lock within lock_timeout", "run the step again, or raise lock_timeout"
    ),
    "57014": Meaning(errors.ConfigurationError, "takes longer than statement_timeout allows", _TIMEOUT),
    "P0": RAISED,
}
_LARGE = 1 << 20
_CLASS = re.compile(r"psycopg2\.errors\.(\w+)")
_STATES = {pg.lookup(state).__name__: state for state in _MEANINGS if len(state) == 5}
_CANCELLED = Meaning(errors.TransientError, "had a statement cancelled by somebody", "run the step again")


def is_of_size(error: psycopg2.Error, size: int) -> bool:
    """Return whether a row of ``size`` bytes is too large for Postgres; memory runs out for other reasons too."""
    state = error.pgcode or ""
    return state[:2] == "54" or "memory alloc request size" in str(error) or (state == "53200" and size > _LARGE)


def meaning(sqlstate: str | None, message: str = "") -> Meaning | None:
    """The meaning of the state, or of its class; None where that depends on the statement, or the session was lost."""
    if sqlstate == "57014" and "user request" in message:
        return _CANCELLED
    return _MEANINGS.get(sqlstate or "") or _MEANINGS.get((sqlstate or "")[:2])


def meaning_in(text: str) -> Meaning | None:
    """Return the meaning of an error of which only the text is left, with the name of its class."""
    match = _CLASS.search(text)
    return meaning(_STATES.get(match[1]), text) if match else None


def explained(error: psycopg2.Error, where: str, hint: str = "") -> OffsetLedgerError | None:
    """Return the error to raise, naming constraint and trigger; None if the SQLSTATE alone says too little."""
    of_ledger = (error.pgcode or "")[:2] == "23" and error.diag.schema_name == "offset_ledger"
    known = _INVARIANT if of_ledger else meaning(error.pgcode, str(error))
    return refusal(known, error, where, hint) if known else None


def refusal(known: Meaning, error: psycopg2.Error, where: str, hint: str = "") -> OffsetLedgerError:
    """Return ``where`` and what happened there, in one line; ``hint`` names a record."""
    diag = error.diag
    # The message, the key that it names, and the function that raised it: never a whole row.
    parts = [diag.message_primary or str(error)]
    if (diag.sqlstate or "") in ("23505", "23503", "23001") and diag.message_detail:
        parts.append(diag.message_detail)
    parts += [line for line in (diag.context or "").splitlines() if "function" in line][:1]
    detail = ", ".join(" ".join(part.split()).rstrip(".") for part in parts)[:400]
    message = f"{detail}; {hint}" if hint else detail
    return known.kind(f"{where} {known.text} ({message}); nothing was committed; {known.advice}")


def in_a_function(error: psycopg2.Error) -> bool:
    """Return whether a function raised it, as that of a trigger does, and not a statement of this package."""
    return "function" in (error.diag.context or "")
