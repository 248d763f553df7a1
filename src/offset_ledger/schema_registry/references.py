"""All schemas that a schema refers to, directly or not, each before those that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from offset_ledger.errors import UnusableSchema
from offset_ledger.model.writer_schema import SchemaReference
from offset_ledger.schema_registry.documents import Reference, Schema

MAX_REFERENCES = 500
MAX_CHARACTERS = 4 * 1024 * 1024  # together: no schema is compiled with more


def resolve(
    references: Iterable[Reference], fetch: Callable[[Reference], Schema], what: str
) -> tuple[SchemaReference, ...]:
    """What ``what`` refers to; ``fetch`` gives the schema of a reference.

    Raises:
        UnusableSchema: the references form a circle, are too many, or mean two schemas by the same name.
    """
    resolved: dict[str, SchemaReference] = {}
    for reference in _in_order(references, fetch, what):
        same = resolved.setdefault(reference.name, reference)
        if same.text != reference.text:
            raise UnusableSchema(
                f"{what} refers by {reference.name!r} to version {same.version} of {same.subject!r} and to version "
                f"{reference.version} of {reference.subject!r}, which differ; register it with one of them"
            )
    return tuple(resolved.values())


def _in_order(
    wanted: Iterable[Reference], fetch: Callable[[Reference], Schema], what: str
) -> Iterator[SchemaReference]:
    seen: set[Reference] = set()
    characters = 0
    stack: list[tuple[Reference | None, Schema | None, Iterator[Reference]]] = [(None, None, iter(wanted))]
    while stack:
        reference, schema, following = stack[-1]
        needed = next(following, None)
        if needed is None:
            stack.pop()
            if reference and schema:
                yield SchemaReference(reference.name, reference.subject, reference.version, schema.text)
            continue
        if any(needed == open_ for open_, _, _ in stack):
            raise UnusableSchema(
                f"{what} refers to version {needed.version} of {needed.subject!r}, which refers to itself"
            )
        if needed in seen:
            continue
        seen.add(needed)
        if len(seen) > MAX_REFERENCES:
            raise UnusableSchema(f"{what} refers to more than {MAX_REFERENCES} other schemas; register it with fewer")
        needed_schema = fetch(needed)
        characters += len(needed_schema.text)
        if characters > MAX_CHARACTERS:
            raise UnusableSchema(
                f"{what} refers to schemas of more than {MAX_CHARACTERS} characters together; register it with less"
            )
        stack.append((needed, needed_schema, iter(needed_schema.references)))
