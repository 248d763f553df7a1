"""The workflow of CI: it runs what any machine runs, and takes actions that nobody can change."""

from __future__ import annotations

import re

import yaml

from tests.paths import ROOT

WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()
(JOB,) = yaml.safe_load(WORKFLOW)["jobs"].values()


def test_it_runs_the_script_of_the_repository_alone() -> None:
    assert [step["run"] for step in JOB["steps"] if "run" in step] == [".ci/run"]


def test_each_action_is_pinned_by_digest_and_says_its_version() -> None:
    used = re.findall(r"uses: (.*)", WORKFLOW)
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []
