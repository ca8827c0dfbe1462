"""Spread sequences over devices so that each gets nearly the same number of tokens, and pack them into micro-batches.

The method is the largest differencing method (N. Karmarkar and R. M. Karp, 1982, "The differencing method of set
partitioning"), in its k-way form. A partial solution is k parts; the two partial solutions with the largest spreads are
joined, the heaviest part of one with the lightest part of the other, until one is left.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

_weight = attrgetter("total", "count")


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of a partial solution; its items hang in a binary tree, so that joining costs nothing."""

    total: int = 0
    count: int = 0
    index: int = -1
    halves: tuple[_Part, _Part] | None = None

    def __add__(self, other: _Part) -> _Part:
        if not self.count:
            return other
        if not other.count:
            return self
        return _Part(self.total + other.total, self.count + other.count, halves=(self, other))

    def items(self) -> Iterator[int]:
        stack = [self]
        while stack:
            part = stack.pop()
            if part.halves is not None:
                stack += part.halves
            elif part.count:
                yield part.index


@dataclass(order=True, slots=True)
class _Solution:
    """k parts, the heaviest first; heaps give out the one with the largest spread first."""

    rank: tuple[int, int]
    parts: list[_Part] = field(compare=False)


def partition_balanced(lengths: Sequence[int], k: int, *, equal_size: bool = False) -> list[list[int]]:
    """Split sequences into ``k`` parts with nearly equal sums.

    The sums of two parts differ by at most the longest sequence; usually by far less.

    Args:
        lengths: Tokens of each sequence, not negative.
        k: Number of parts.
        equal_size: Whether every part must hold the same number of sequences.

    Returns:
        The indices of each part, ascending; every index is in exactly one part, and no part is empty.

    Raises:
        ValueError: ``k`` is below 1 or above the number of sequences, a length is negative, or ``equal_size`` is asked
            for and the number of sequences is no multiple of ``k``.
    """
    _check(lengths, k, equal_size=equal_size)
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    parts = [_Part(lengths[i], 1, i) for i in order]
    if equal_size:
        starts = [parts[i : i + k] for i in range(0, len(parts), k)]
    else:
        rest = [_Part()] * (k - 1)
        starts = [[part, *rest] for part in parts]
    solution = _join_all(starts)
    return sorted(sorted(part.items()) for part in solution)


def pack_by_tokens(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Pack sequences into few bins of at most ``max_tokens`` each, balanced where that costs no further bin.

    Never more bins than first-fit decreasing needs.

    Returns:
        The indices of each bin, ascending; every index is in exactly one bin.

    Raises:
        ValueError: One sequence alone is longer than ``max_tokens``, or a length is negative.
    """
    for index, length in enumerate(lengths):
        if not 0 <= length <= max_tokens:
            raise ValueError(
                f"sequence {index} has {length} tokens; allowed are 0 to {max_tokens} (max_tokens). "
                "Raise the limit, or drop or shorten the sequence"
            )
    if not lengths:
        return []
    greedy = _first_fit_decreasing(lengths, max_tokens)
    for k in range(max(1, -(-sum(lengths) // max_tokens)), len(greedy) + 1):
        parts = partition_balanced(lengths, k)
        if max(sum(lengths[i] for i in part) for part in parts) <= max_tokens:
            return parts
    return greedy


def _check(lengths: Sequence[int], k: int, *, equal_size: bool) -> None:
    if not 1 <= k <= len(lengths):
        raise ValueError(f"cannot split {len(lengths)} sequences into {k} parts; allowed are 1 to {len(lengths)} parts")
    if equal_size and len(lengths) % k:
        raise ValueError(
            f"{len(lengths)} sequences cannot go into {k} parts of equal size; "
            f"use a multiple of {k}, or equal_size=False"
        )
    shortest = min(lengths)
    if shortest < 0:
        raise ValueError(f"sequence {list(lengths).index(shortest)} has {shortest} tokens; lengths cannot be negative")


def _join_all(starts: list[list[_Part]]) -> list[_Part]:
    heap = [_Solution((_spread(parts), number), parts) for number, parts in enumerate(starts)]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        parts = [a + b for a, b in zip(first.parts, reversed(second.parts), strict=True)]
        # By weight, then count: an empty part then counts as lighter than one of zero-length sequences.
        parts.sort(key=_weight, reverse=True)
        heapq.heappush(heap, _Solution((_spread(parts), number), parts))
        number += 1
    return heap[0].parts


def _spread(parts: list[_Part]) -> int:
    """Return minus the spread: heaps give out the smallest first."""
    return parts[-1].total - parts[0].total


def _first_fit_decreasing(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    bins: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        length = lengths[index]
        slot = next((slot for slot, left in enumerate(room) if left >= length), None)
        if slot is None:
            bins.append([])
            room.append(max_tokens)
            slot = len(bins) - 1
        bins[slot].append(index)
        room[slot] -= length
    return sorted(sorted(items) for items in bins)
