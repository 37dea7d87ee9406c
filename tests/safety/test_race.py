import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

RACE = Path(__file__).parents[2] / "bench" / "race.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")


@pytest.fixture(scope="module")
def race() -> ModuleType:
    spec = importlib.util.spec_from_file_location("race", RACE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    sys.modules["race"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", ["folder", "leaf"])
def test_the_attack_beats_realpath_and_check(tmp_path, race, case):
    late = race.seconds(60)
    assert race.naive(tmp_path, case, lambda count: count.escapes or late(count)).escapes


@pytest.mark.parametrize("case", ["folder", "leaf"])
def test_no_swap_leads_a_reader_outside(tmp_path, race, engine, case):
    count = race.reads(tmp_path, case, engine, race.seconds(3))
    assert count.escapes == 0
    assert 0 < count.done <= count.tries


@pytest.mark.parametrize("case", ["folder", "leaf", "git"])
def test_no_swap_leads_a_writer_outside_or_into_git(tmp_path, race, engine, case):
    count = race.writes(tmp_path, case, engine, race.seconds(3))
    assert count.escapes == 0
    assert 0 < count.done <= count.tries
