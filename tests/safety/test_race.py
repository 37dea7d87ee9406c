import sys

import pytest

from bench import race

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")


@pytest.fixture(params=[0.4, pytest.param(3, marks=pytest.mark.attack)], ids=lambda seconds: f"{seconds} s")
def window(request):
    """Return how many seconds are spent on trying."""
    return request.param


@pytest.mark.parametrize("case", ["folder", "leaf"])
def test_the_attack_beats_realpath_and_check(tmp_path, case):
    late = race.seconds(60)
    assert race.naive(tmp_path, case, lambda count: count.escapes or late(count)).escapes


@pytest.mark.parametrize("reads", [race.reads, race.target_reads])
@pytest.mark.parametrize("case", ["folder", "leaf"])
def test_no_swap_leads_a_reader_outside(tmp_path, engine, case, reads, window):
    count = reads(tmp_path, case, engine, race.seconds(window))
    assert count.escapes == 0
    assert 0 < count.done <= count.tries


@pytest.mark.parametrize("case", ["folder", "leaf", "git"])
def test_no_swap_leads_a_writer_outside_or_into_git(tmp_path, engine, case, window):
    count = race.writes(tmp_path, case, engine, race.seconds(window))
    assert count.escapes == 0
    assert 0 < count.done <= count.tries
