"""Rules as instructions."""

from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.linux import bpf_simulator as simulator
from toolbox_mcp.sandbox.linux.bpf import ALLOW, Filter, error

numbers = st.integers(0, 1000)
words = st.integers(0, 2**32 - 1)


@given(st.sets(numbers, max_size=600), numbers)
def test_a_list_of_any_length_answers_its_members_and_no_others(listed, number):
    rules = Filter(7)
    rules.answer(listed, error(1))
    assert simulator.run(rules.program(), 7, number) == (error(1) if number in listed else ALLOW)


@given(numbers, numbers, words, st.lists(words, max_size=5), st.sampled_from([None, 0xF, 0xFF00]))
def test_an_argument_must_be_one_of_the_values(rule, number, value, values, mask):
    rules = Filter(7)
    rules.only_with(rule, 2, values, error(1), mask)
    rules.answer([rule], error(2))
    seen = value if mask is None else value & mask
    expected = ALLOW if number != rule else error(2) if seen in values else error(1)
    assert simulator.run(rules.program(), 7, number, (0, 0, value)) == expected


@given(numbers, numbers, words, st.lists(words, min_size=1, max_size=5), words)
def test_an_argument_must_not_be_one_of_the_values_nor_have_a_bit(rule, number, value, values, bits):
    rules = Filter(7)
    rules.never_with(rule, 0, values, error(1))
    rules.never_with_bits(rule, 0, bits, error(2))
    bad = error(1) if value in values else error(2) if value & bits else ALLOW
    assert simulator.run(rules.program(), 7, number, (value,)) == (bad if number == rule else ALLOW)
