"""Every attempt in a jailed call, without a list and with a folder to write in, and what tries to outlive it.

They run in a world. The jail promises less than a sandbox: residue.JAIL is what it does not contain, and docs/jail.md says so.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.sandbox.escapes import residue, world
from tests.sandbox.escapes import test_escapes as escapes
from tests.sandbox.escapes.conftest import everywhere

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux")

HERE = Path(__file__).parent
PAGE = HERE.parent.parent.parent / "docs" / "jail.md"


NAMES = [*escapes.ONCE, *escapes.SEEN_OUTSIDE, *(name for name in escapes.BOMBS if name.startswith("stays_"))]


@pytest.fixture(scope="module")
def reports():
    return everywhere(*residue.JAIL)


@pytest.mark.parametrize("identity", world.IDENTITIES)
@pytest.mark.parametrize("jail", residue.JAIL)
def test_each_jail_takes_part(reports, identity, jail):
    assert reports[identity]["problems"] == []
    assert set(reports[identity]["rounds"][jail]["attempts"]) == set(NAMES)


@pytest.mark.parametrize("identity", world.IDENTITIES)
@pytest.mark.parametrize("jail", residue.JAIL)
def test_a_jailed_function_reaches_what_the_page_says_and_no_more(reports, identity, jail):
    attempts = reports[identity]["rounds"][jail]["attempts"]
    left = residue.JAIL[jail] | (residue.JAIL_OF_ROOT if identity == "mapped root" else set())
    reached = {name for name in NAMES if attempts[name][0]}
    assert {name: attempts[name] for name in reached - left} == {}
    assert left - reached <= set(escapes.WITHOUT_CONTROL)


def test_the_page_names_what_is_not_contained():
    left = PAGE.read_text().partition("## What is left")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", left)) & set(NAMES) == residue.JAIL_OF_ROOT.union(*residue.JAIL.values())
