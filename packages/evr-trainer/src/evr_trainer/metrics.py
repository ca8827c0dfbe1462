"""Metrics that add up over micro-batches and ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor

__all__ = ["MetricSums", "summary_stats"]


@dataclass
class MetricSums:
    """Weighted means and maxima, kept as sums so that any split of the batch gives the same numbers."""

    sums: dict[str, tuple[float, float]] = field(default_factory=dict)
    maxima: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, total: float, weight: float) -> None:
        """Add ``total``, the sum over ``weight`` items, to the mean called ``name``."""
        old_total, old_weight = self.sums.get(name, (0.0, 0.0))
        self.sums[name] = (old_total + total, old_weight + weight)

    def add_mean(self, name: str, values: Tensor) -> None:
        """Add every element of ``values`` to the mean called ``name``."""
        self.add(name, float(values.double().sum()), float(values.numel()))

    def add_max(self, name: str, value: float) -> None:
        """Keep the largest value; one that is no number is kept above all."""
        known = self.maxima.get(name, value)
        self.maxima[name] = known if math.isnan(known) else value if math.isnan(value) else max(known, value)

    def result(self) -> dict[str, float]:
        """Means and maxima by name; a mean over nothing is left out."""
        means = {name: total / weight for name, (total, weight) in self.sums.items() if weight}
        return {**means, **self.maxima}

    @classmethod
    def merge(cls, parts: Iterable[MetricSums]) -> MetricSums:
        """One object over all parts."""
        merged = cls()
        for part in parts:
            for name, (total, weight) in part.sums.items():
                merged.add(name, total, weight)
            for name, value in part.maxima.items():
                merged.add_max(name, value)
        return merged


def summary_stats(prefix: str, values: Tensor) -> dict[str, float]:
    """``prefix/mean``, ``prefix/max`` and ``prefix/min`` of a tensor with at least one element."""
    flat = values.double().flatten()
    return {
        f"{prefix}/mean": float(flat.mean()),
        f"{prefix}/max": float(flat.max()),
        f"{prefix}/min": float(flat.min()),
    }
