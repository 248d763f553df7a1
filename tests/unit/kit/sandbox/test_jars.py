"""Fetching jars with the real Ivy, from a repository in a folder."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from offset_ledger.errors import StackError
from offset_ledger_kit.sandbox import jars, registry
from offset_ledger_kit.sandbox.jars import Artifact, Bundle, artifact_name, fetch
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.process import silent

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{name}</artifactId>
<version>1.0</version><packaging>jar</packaging><dependencies>{needs}</dependencies></project>"""
NEED = "<dependency><groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version></dependency>"


@pytest.fixture
def repository(maven: Path) -> Path:
    """A Maven repository in a folder: ``whole`` needs ``part`` and ``shipped``."""
    for name, needs in {"whole": ("part", "shipped"), "part": (), "shipped": ()}.items():
        folder = maven / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.pom").write_text(
            POM.format(name=name, needs="".join(NEED.format(name=need) for need in needs))
        )
        with zipfile.ZipFile(folder / f"{name}-1.0.jar", "w") as jar:
            jar.writestr("name.txt", name)
    return maven


def bundle(version: str = "1.0", without: frozenset[str] = frozenset()) -> Bundle:
    return Bundle((Artifact("org.example", "whole", version),), without)


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("without", [set(), {"shipped"}])
def test_a_bundle_comes_with_what_it_needs_but_for_what_is_there_already(without: set[str]) -> None:
    jars = fetch(bundle(without=frozenset(without)), find_java(), silent)
    assert [jar.name for jar in jars] == [
        f"{each}-1.0.jar" for each in ("part", "shipped", "whole") if {each} != without
    ]


@pytest.mark.usefixtures("repository")
def test_the_second_time_nothing_is_fetched() -> None:
    said: list[str] = []
    first = fetch(bundle(), find_java(), said.append)
    assert fetch(bundle(), find_java(), said.append) == first
    assert said == ["fetching whole-1.0 (once)", jars.unpinned_line("whole-1.0.jar")]


@pytest.fixture
def pinned(repository: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Our checksums of the jars of the repository, as they are now."""
    digests = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in repository.rglob("*.jar")}
    monkeypatch.setattr(jars, "known", lambda: digests)
    return digests


def test_jars_with_our_checksums_are_taken_and_those_fetched_without_are_not(pinned: dict[str, str]) -> None:
    others = dict(pinned)
    pinned.clear()
    trusted = fetch(bundle(), find_java(), silent)
    pinned.update(others)
    said: list[str] = []
    checked = fetch(bundle(), find_java(), said.append)
    assert [jar.name for jar in checked] == [jar.name for jar in trusted]
    assert checked[0].parent.name == f"whole-1.0-{pinned['whole-1.0.jar'][:8]}" != trusted[0].parent.name
    assert said == ["fetching whole-1.0 (once)"]


@pytest.mark.parametrize("name", ["whole", "part"])
def test_a_jar_with_another_content_is_not_used(repository: Path, pinned: dict[str, str], name: str) -> None:
    with zipfile.ZipFile(repository / "org" / "example" / name / "1.0" / f"{name}-1.0.jar", "a") as jar:
        jar.writestr("planted.class", "planted")
    expected = (
        rf"^{name}-1\.0\.jar should have the SHA-256 {pinned[f'{name}-1.0.jar']}, found [0-9a-f]{{64}}; it was not"
    )
    with pytest.raises(StackError, match=expected):
        fetch(bundle(), find_java(), silent)
    assert list(bundle().folder.parent.iterdir()) == []


def test_a_jar_that_nobody_expects_is_not_used(pinned: dict[str, str]) -> None:
    del pinned["part-1.0.jar"]
    with pytest.raises(StackError, match=r"^part-1\.0\.jar should have the SHA-256 of no file: it is not"):
        fetch(bundle(), find_java(), silent)


def test_every_version_that_the_package_names_has_a_checksum() -> None:
    tools = jars.Artifact("org.apache.kafka", "kafka-tools", jars.KAFKA_VERSION)
    named = (*jars.broker_bundle(jars.KAFKA_VERSION).artifacts, tools, registry._APP)
    assert [each.file for each in named if each.file not in jars.known()] == []
    assert {len(digest) for digest in jars.known().values()} == {64}


def test_a_failure_is_one_line_and_leaves_no_folder(repository: Path) -> None:
    (repository / "org" / "example" / "part" / "1.0" / "part-1.0.jar").unlink()
    (repository / "org" / "example" / "part" / "1.0" / "part-1.0.pom").unlink()
    with pytest.raises(StackError, match=r"^could not fetch whole-1\.0: org\.example#part;1\.0: not found; check"):
        fetch(bundle(), find_java(), silent)
    assert list(bundle().folder.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("slf4j-api-2.0.16.jar", "slf4j-api"),
        ("spark-tags_2.13-4.0.0.jar", "spark-tags_2.13"),
        ("hadoop-client-api-3.4.1.jar", "hadoop-client-api"),
        ("commons-pool2-2.12.0.jar", "commons-pool2"),
        ("RoaringBitmap-1.3.0.jar", "RoaringBitmap"),
    ],
)
def test_the_name_of_an_artifact_has_no_version(file: str, name: str) -> None:
    assert artifact_name(Path(file)) == name
