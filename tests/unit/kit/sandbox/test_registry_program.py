"""Fetching the registry with the real Ivy, from a repository in a folder: whole or absent, and unpacked once."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from offset_ledger.errors import StackError
from offset_ledger_kit.sandbox import jars
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.process import silent
from offset_ledger_kit.sandbox.registry import APICURIO_VERSION, registry_program

NAME = "apicurio-registry-app"
POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>io.apicurio</groupId><artifactId>{NAME}</artifactId>
<version>{APICURIO_VERSION}</version><packaging>jar</packaging><dependencies><dependency><groupId>org.example</groupId>
<artifactId>not-there</artifactId><version>1</version></dependency></dependencies></project>"""


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, maven: Path) -> Path:
    """The archive of a repository in a folder, whose artifact needs others that are not fetched."""
    folder = maven / "io" / "apicurio" / NAME / APICURIO_VERSION
    folder.mkdir(parents=True)
    (folder / f"{NAME}-{APICURIO_VERSION}.pom").write_text(POM)
    path = folder / f"{NAME}-{APICURIO_VERSION}-all.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name in (f"{NAME}-{APICURIO_VERSION}-runner.jar", "lib/other.jar"):
            entry = tarfile.TarInfo(name)
            entry.size = len(name)
            packed.addfile(entry, io.BytesIO(name.encode()))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(jars, "known", lambda: {path.name: digest})
    return path


def cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "apicurio").iterdir())


def test_it_is_fetched_and_unpacked_once(archive: Path, tmp_path: Path) -> None:
    said: list[str] = []
    program = registry_program(find_java(), said.append)
    archive.unlink()
    assert registry_program(find_java(), said.append) == program
    assert said == [f"fetching Apicurio Registry {APICURIO_VERSION}, 136 MiB (once)"]
    assert program.read_text() == program.name == f"{NAME}-{APICURIO_VERSION}-runner.jar"
    assert (program.parent / "lib" / "other.jar").is_file()
    (folder,) = cached(tmp_path)
    assert folder == f"{APICURIO_VERSION}-{jars.known()[archive.name][:8]}"


def test_a_failure_is_one_line_and_leaves_nothing(archive: Path, tmp_path: Path) -> None:
    archive.unlink()
    with pytest.raises(
        StackError, match=rf"^could not fetch {NAME}-{APICURIO_VERSION}: .*; check the network, or name"
    ):
        registry_program(find_java(), silent)
    assert cached(tmp_path) == []


def test_an_archive_with_another_content_is_not_unpacked(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes() + b"planted")
    with pytest.raises(StackError, match=rf"^{archive.name} should have the SHA-256 [0-9a-f]{{64}}, found .* not used"):
        registry_program(find_java(), silent)
    assert cached(tmp_path) == []


def test_a_broken_archive_is_one_line_and_leaves_nothing(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write_bytes(archive.read_bytes()[:-40])
    monkeypatch.setattr(jars, "known", dict)
    with pytest.raises(StackError, match=rf"^{archive.name} cannot be unpacked \(.*\); run the command again$"):
        registry_program(find_java(), silent)
    assert cached(tmp_path) == []
