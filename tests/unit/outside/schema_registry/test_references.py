"""What a schema refers to, in order; circles, two meanings of a name and too many references are refused."""

from __future__ import annotations

import pytest

from offset_ledger.errors import UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference
from offset_ledger.outside.schema_registry.client import MAX_CHARACTERS, MAX_REFERENCES, Reference, Schema, resolve


def to(*subjects: str) -> tuple[Reference, ...]:
    """References by the name of the subject in capitals, to version 1 unless the subject says another: ``a:2``."""
    parts = [each.partition(":") for each in subjects]
    return tuple(Reference(name.upper(), name, int(version or 1)) for name, _, version in parts)


class Kept:
    """Schemas by subject, as a registry has them; each remembers how often it was fetched."""

    def __init__(self, **references: tuple[Reference, ...]) -> None:
        self.references = references
        self.fetched: list[str] = []

    def __call__(self, reference: Reference) -> Schema:
        self.fetched.append(reference.subject)
        return Schema(SchemaLanguage.AVRO, text(reference), self.references.get(reference.subject, ()))


def text(reference: Reference) -> str:
    return f"text of {reference.subject} {reference.version}"


def resolved(kept: Kept, *references: Reference) -> list[str]:
    found = resolve(references, kept, "schema 1")
    assert all(each == SchemaReference(each.name, each.subject, 1, f"text of {each.subject} 1") for each in found)
    return [each.subject for each in found]


def test_each_comes_before_those_that_need_it_and_once() -> None:
    kept = Kept(d=to("b", "c"), b=to("a"), c=to("a", "b"))
    assert resolved(kept, *to("d", "c", "a")) == ["a", "b", "c", "d"]
    assert sorted(kept.fetched) == ["a", "b", "c", "d"]


def test_nothing_is_referred_to() -> None:
    assert resolved(Kept()) == []


@pytest.mark.parametrize("kept", [Kept(a=to("a")), Kept(a=to("b"), b=to("c"), c=to("b"))], ids=["itself", "circle"])
def test_a_circle_is_refused(kept: Kept) -> None:
    with pytest.raises(UnusableSchema, match=r"^schema 1 refers to version 1 of '[ab]', which refers to itself$"):
        resolved(kept, *to("a"))


def test_two_versions_by_one_name_are_refused() -> None:
    with pytest.raises(
        UnusableSchema, match=r"^schema 1 refers by 'A' to version 1 of 'a' and to version 2 of 'a', which differ"
    ):
        resolved(Kept(b=to("a:2")), *to("a", "b"))


def test_a_chain_without_end_is_refused() -> None:
    class Endless(Kept):
        def __call__(self, reference: Reference) -> Schema:
            super().__call__(reference)
            return Schema(SchemaLanguage.AVRO, "x", to(f"s{len(self.fetched)}"))

    kept = Endless()
    with pytest.raises(UnusableSchema, match=rf"^schema 1 refers to more than {MAX_REFERENCES} other schemas"):
        resolved(kept, *to("s0"))
    assert len(kept.fetched) == MAX_REFERENCES


def test_many_ways_to_the_same_schemas_are_followed_once() -> None:
    layers = {f"l{n}": (*to(f"l{n + 1}"), Reference("again", f"l{n + 1}", 1)) for n in range(30)}
    kept = Kept(**layers)
    with pytest.raises(UnusableSchema, match="refers by 'again'"):
        resolved(kept, *to("l0"))
    assert len(kept.fetched) < 100


def test_references_that_are_too_large_together_are_not_all_fetched() -> None:
    fetched = []

    def fetch(reference: Reference) -> Schema:
        fetched.append(reference.subject)
        return Schema(SchemaLanguage.AVRO, "x" * MAX_CHARACTERS)

    with pytest.raises(UnusableSchema, match="more than 4194304 characters together"):
        resolve(to(*"abcdef"), fetch, "schema 1")
    assert fetched == ["a", "b"]
