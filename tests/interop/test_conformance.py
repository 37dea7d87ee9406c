"""The official conformance suite, against the fixtures on this server's stack and against the server itself."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RESULT = re.compile(r"^server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True)
class Check:
    """One check of a scenario."""

    name: str
    status: str
    message: str


def checks(folder: Path) -> Iterator[tuple[str, list[Check]]]:
    """Yield each scenario that was run, with its checks."""
    for result in sorted(folder.iterdir()):
        found = RESULT.match(result.name)
        assert found, f"unknown result {result.name}"
        rows = json.loads((result / "checks.json").read_text())
        yield found["scenario"], [Check(r["id"], r["status"], str(r.get("errorMessage", ""))) for r in rows]


def required(clients, revision: str) -> set[str]:
    """Return the server scenarios that count for a revision, as the suite lists them."""
    text = clients.run("conformance", "list", "--server", "--requirements", revision).out
    section = re.search(r"^Server scenarios.*?\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert section, text
    return set(re.findall(r"^ +- (\S+)$", section[1], re.MULTILINE))


@dataclass(frozen=True)
class Run:
    """One run of all that a revision requires."""

    revision: str
    required: set[str]
    found: dict[str, list[Check]]


@pytest.fixture(scope="module", params=["2025-11-25", "2026-07-28"])
def run(request, clients, serve, free_ports, tmp_path_factory) -> Run:
    revision: str = request.param
    port = free_ports()
    folder = tmp_path_factory.mktemp("conformance")
    root = tmp_path_factory.mktemp("root")
    out = folder / "out"
    argv = [sys.executable, "-m", "interop.fixture_server", str(port), str(root)]
    with serve(argv, port, home=root, cwd=HERE.parent):
        url = f"http://127.0.0.1:{port}/mcp"
        clients.run("conformance", "server", "--url", url, "--requirements", revision, "-o", str(out))
    return Run(revision, required(clients, revision), dict(checks(out)))


def test_every_required_scenario_passes(run: Run):
    assert run.required <= set(run.found)
    failed = {
        f"{scenario}: {check.name}": check.message
        for scenario in run.required
        for check in run.found[scenario]
        if check.status == "FAILURE"
    }
    assert failed == {}


def test_every_required_scenario_looked_as_often_as_the_page_on_clients_says(run: Run):
    passed = {name: [c for c in run.found[name] if c.status == "SUCCESS"] for name in run.required}
    assert [name for name, found in passed.items() if not found] == []
    count = sum(map(len, passed.values()))
    page = (HERE.parents[1] / "docs/clients.md").read_text()
    told = re.search(rf"\| {run.revision} \| (\d+) \| (\d+) \|", page)
    assert told is not None
    assert [int(number) for number in told.groups()] == [len(run.required), count]


def test_what_fails_or_is_empty_besides_is_listed_with_its_reason(run: Run):
    listed: dict[str, str] = {}
    for line in (HERE / "unscored.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            revision, scenario, reason = line.split(" ", 2)
            if revision == run.revision:
                listed[scenario] = reason
    besides = {name: found for name, found in run.found.items() if name not in run.required}
    not_passing = {
        name
        for name, found in besides.items()
        if any(c.status == "FAILURE" for c in found) or not any(c.status == "SUCCESS" for c in found)
    }
    assert not_passing == set(listed)


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        ("2025-11-25", "server-initialize"),
        ("2025-11-25", "ping"),
        ("2025-11-25", "tools-list"),
        ("2025-11-25", "dns-rebinding-protection"),
        ("2025-11-25", "server-session-lifecycle"),
        ("2026-07-28", "server-stateless"),
        ("2026-07-28", "tools-list"),
        ("2026-07-28", "dns-rebinding-protection"),
    ],
)
def test_the_server_itself_passes_what_needs_no_fixture(clients, endpoints, tmp_path, revision, scenario):
    clients.run(
        *("conformance", "server", "--url", endpoints.http, "--scenario", scenario),
        *("--spec-version", revision, "-o", str(tmp_path / "out")),
    )
    found = [check for _, rows in checks(tmp_path / "out") for check in rows]
    # Some checks need a fixture; they are made in the run above.
    failed = [check for check in found if check.status == "FAILURE" and not check.message.startswith("Not testable")]
    assert failed == []
    assert [check for check in found if check.status == "SUCCESS"] != []
