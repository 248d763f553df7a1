"""docs/tutorial.md, followed from its own code blocks: files are written, commands are run, counts are those shown."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger_kit.cli.main import main
from tests.fixtures.servers import Servers
from tests.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

# The topics of the page are also those of other pages.
PAGE = (ROOT / "docs/tutorial.md").read_text().replace("shop.", "lesson.")
SECTIONS = {int(number): text for number, text in re.findall(r"^## (\d)\. .*?\n(.*?)(?=^## )", PAGE, re.M | re.S)}
BLOCKS = re.compile(r"(?:^```\w*\n.*?^```\n\s*)+", re.M | re.S)
NAME = re.compile(r"`([\w./]+\.(?:jsonl|avsc|yaml))`")


@dataclass
class Reader:
    """Somebody who follows the page in an empty folder."""

    folder: Path
    postgres: Connection
    capsys: pytest.CaptureFixture[str]
    batches: dict[str, str] = field(default_factory=dict)  # the number that the page shows, and that of the ledger

    def follows(self, number: int) -> None:
        """Write the files of a section and run its commands, in their order."""
        text, place = SECTIONS[number], 0
        for blocks in BLOCKS.finditer(text):
            several = re.findall(r"^```(\w*)\n(.*?)^```", blocks[0], re.M | re.S)
            names = NAME.findall(text[place : blocks.start()])
            names = names[max(0, len(names) - sum(bool(language) for language, _ in several)) :]
            place = blocks.end()
            for language, block in several:
                if language and names:
                    self.writes(names.pop(0), block)
                elif language:
                    self.edits("dags/pipelines/shipments.yaml", "    grams: integer\n", block)
                else:
                    self.types(block)

    def writes(self, name: str, block: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(block)

    def edits(self, name: str, before: str, after: str) -> None:
        text = (self.folder / name).read_text()
        assert before in text
        self.writes(name, text.replace(before, after))

    def types(self, block: str) -> None:
        for command, shown in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.M):
            program, *arguments = shlex.split(command)
            if program == "psql":
                self.asks(arguments[-1], shown)
                continue
            assert program == "offset-ledger"
            code = main([self.batches.get(each, each) for each in arguments])
            said = self.capsys.readouterr()
            assert (code != 0) == ("BatchRejected" in shown), f"{command}\n{said.out}\n{said.err}"
            if code:
                number = r"batch (\d+) of payments is rejected"
                self.batches |= zip(re.findall(number, shown), re.findall(number, said.err), strict=True)
                assert "quarantined share 60% is above the limit of 1%" in said.err
            for line in re.findall(r"^committed batch \d+: ([^(]+) \(", shown, re.M):
                assert line in said.out + said.err, command
            for line in re.findall(r"^(?:table|topic) \S+ (?:fits|is there|does not exist).*$", shown, re.M):
                assert line in said.out, command

    def asks(self, query: str, shown: str) -> None:
        with connect(self.postgres) as session, transaction(session) as cursor:
            cursor.execute("SET search_path TO public")
            cursor.execute(query)
            if "|" not in shown:
                return
            wanted = [[cell.strip() for cell in line.split("|")] for line in shown.splitlines()[2:] if "|" in line]
            found = sorted(["" if each is None else str(each) for each in row] for row in cursor.fetchall())
        for row in (*wanted, *found):
            row[-1] = ""  # the registry of the tests counts further
        assert found == wanted


@pytest.fixture
def reader(
    servers: Servers,
    registry_connection: Connection,  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Reader:
    monkeypatch.chdir(tmp_path)
    return Reader(tmp_path, servers.postgres, capsys)


def test_every_step_does_what_the_page_shows(reader: Reader) -> None:
    for number in (2, 3, 4):
        reader.follows(number)
    reader.edits("dags/pipelines/orders.yaml", "numeric(12,2)", "numeric(12,3)")
    for number in (5, 6):
        reader.follows(number)
    assert '"name": "carrier", "type": ["null",' in SECTIONS[7]
    schema = {
        "type": "record",
        "name": "Shipment",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "grams", "type": "long"},
            {"name": "carrier", "type": ["null", "string"], "default": None},
        ],
    }
    reader.writes("shipment.2.avsc", json.dumps(schema))
    reader.follows(7)
    reader.follows(8)
    assert (reader.folder / "dags/pipelines/orders_2.yaml").exists()
