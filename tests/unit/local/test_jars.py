"""Fetching jars with the real Ivy, from a repository in a folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from offset_ledger.errors import StackError
from offset_ledger.local.jars import Artifact, Bundle, artifact_name, fetch
from offset_ledger.local.java import find_java
from offset_ledger.local.process import silent

SETTINGS = """<ivysettings><settings defaultResolver="here"/><resolvers>
<filesystem name="here" m2compatible="true">
<ivy pattern="{root}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
<artifact pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>"""
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{name}</artifactId>
<version>1.0</version><packaging>jar</packaging><dependencies>{needs}</dependencies></project>"""
NEED = "<dependency><groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version></dependency>"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache that is empty and a Maven repository in a folder: ``whole`` needs ``part`` and ``shipped``."""
    root = tmp_path / "repository"
    for name, needs in {"whole": ("part", "shipped"), "part": (), "shipped": ()}.items():
        folder = root / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.pom").write_text(
            POM.format(name=name, needs="".join(NEED.format(name=need) for need in needs))
        )
        with zipfile.ZipFile(folder / f"{name}-1.0.jar", "w") as jar:
            jar.writestr("name.txt", name)
    (tmp_path / "settings.xml").write_text(SETTINGS.format(root=root))
    monkeypatch.setenv("OFFSET_LEDGER_IVY_SETTINGS", str(tmp_path / "settings.xml"))
    monkeypatch.setenv("OFFSET_LEDGER_CACHE", str(tmp_path / "cache"))
    return root


def bundle(version: str = "1.0", without: frozenset[str] = frozenset()) -> Bundle:
    return Bundle((Artifact("org.example", "whole", version),), without)


@pytest.mark.usefixtures("repository")
def test_a_bundle_comes_with_what_it_needs() -> None:
    jars = fetch(bundle(), find_java(), silent)
    assert [jar.name for jar in jars] == ["part-1.0.jar", "shipped-1.0.jar", "whole-1.0.jar"]


@pytest.mark.usefixtures("repository")
def test_what_is_there_already_is_left_out() -> None:
    jars = fetch(bundle(without=frozenset({"shipped"})), find_java(), silent)
    assert [jar.name for jar in jars] == ["part-1.0.jar", "whole-1.0.jar"]


@pytest.mark.usefixtures("repository")
def test_the_second_time_nothing_is_fetched() -> None:
    said: list[str] = []
    first = fetch(bundle(), find_java(), said.append)
    assert (fetch(bundle(), find_java(), said.append), said) == (first, ["fetching whole-1.0 (once)"])


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
