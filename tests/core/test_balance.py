"""Balanced partitions and packing: properties, known optima and speed."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evr_core import pack_by_tokens, partition_balanced

LENGTHS = st.lists(st.integers(0, 5000), min_size=1, max_size=60)


def sums(lengths, parts):
    return [sum(lengths[i] for i in part) for part in parts]


@given(lengths=LENGTHS, data=st.data())
@settings(deadline=None, max_examples=200)
def test_partition_properties(lengths, data):
    k = data.draw(st.integers(1, len(lengths)))
    parts = partition_balanced(lengths, k)
    assert sorted(itertools.chain(*parts)) == list(range(len(lengths)))
    assert len(parts) == k
    assert all(parts)
    totals = sums(lengths, parts)
    assert max(totals) - min(totals) <= max(lengths)


@given(lengths=st.lists(st.integers(0, 5000), min_size=2, max_size=20), k=st.integers(1, 6))
@settings(deadline=None, max_examples=200)
def test_equal_size_properties(lengths, k):
    lengths = lengths * k
    parts = partition_balanced(lengths, k, equal_size=True)
    assert sorted(itertools.chain(*parts)) == list(range(len(lengths)))
    assert {len(part) for part in parts} == {len(lengths) // k}
    totals = sums(lengths, parts)
    assert max(totals) - min(totals) <= max(lengths) - min(lengths)


def test_textbook_example():
    # Karmarkar-Karp on {8, 7, 6, 5, 4} in two parts ends with a difference of 2 (the optimum is 0).
    totals = sums([8, 7, 6, 5, 4], partition_balanced([8, 7, 6, 5, 4], 2))
    assert sorted(totals) == [14, 16]


def test_near_the_optimum_found_by_trying_everything():
    rng = random.Random(0)
    for _ in range(40):
        lengths = [rng.randint(1, 100) for _ in range(8)]
        best = min(
            max(sum(x for x, part in zip(lengths, choice, strict=True) if part == p) for p in range(3))
            for choice in itertools.product(range(3), repeat=8)
        )
        assert max(sums(lengths, partition_balanced(lengths, 3))) <= 1.15 * best


@pytest.mark.parametrize("equal_size", [False, True])
def test_5120_sequences_over_128_devices(equal_size):
    rng = random.Random(1)
    lengths = [rng.randint(500, 16_000) for _ in range(5120)]
    start = time.process_time()
    totals = sums(lengths, partition_balanced(lengths, 128, equal_size=equal_size))
    elapsed_s = time.process_time() - start
    assert max(totals) / min(totals) < 1.0001
    assert elapsed_s < 1.0


def test_same_input_gives_the_same_parts():
    lengths = [5, 5, 5, 5, 1, 1]
    assert partition_balanced(lengths, 3) == partition_balanced(list(lengths), 3)


@pytest.mark.parametrize(
    "lengths, k, equal_size, message",
    [
        ([1, 2], 3, False, "cannot split 2 sequences into 3 parts; allowed are 1 to 2"),
        ([1, 2], 0, False, "into 0 parts"),
        ([1, 2, 3], 2, True, "multiple of 2, or equal_size=False"),
        ([1, -2], 1, False, "sequence 1 has -2 tokens"),
    ],
)
def test_partition_refuses(lengths, k, equal_size, message):
    with pytest.raises(ValueError, match=message):
        partition_balanced(lengths, k, equal_size=equal_size)


@given(lengths=st.lists(st.integers(0, 1000), max_size=60), max_tokens=st.integers(1000, 4000))
@settings(deadline=None, max_examples=200)
def test_packing_properties(lengths, max_tokens):
    bins = pack_by_tokens(lengths, max_tokens)
    assert sorted(itertools.chain(*bins)) == list(range(len(lengths)))
    assert all(total <= max_tokens for total in sums(lengths, bins))
    assert all(bins)
    # Two bins that fit into one would be a bin too many.
    least = sorted(sums(lengths, bins))[:2]
    assert len(bins) < 2 or len(bins) == -(-sum(lengths) // max_tokens) or sum(least) > max_tokens


def test_packing_finds_full_bins_and_balances_the_rest():
    assert len(pack_by_tokens([6, 4, 7, 3, 5, 5], 10)) == 3
    assert sorted(sums([5, 5, 5, 5, 5, 5], pack_by_tokens([5, 5, 5, 5, 5, 5], 20))) == [15, 15]


def test_packing_refuses_what_cannot_fit():
    with pytest.raises(ValueError, match=r"sequence 1 has 11 tokens; allowed are 0 to 10 \(max_tokens\)"):
        pack_by_tokens([1, 11], 10)
