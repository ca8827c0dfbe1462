"""Means with intervals for rows that are not independent: questions on one video stand or fall together.

Legend: R rows, C clusters, G groups, B bootstrap draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

DRAWS = 4000
_CHUNK_CELLS = 4_000_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number and how far it can be trusted.

    Attributes:
        value: The estimate; NaN-free, 0 for no rows.
        low: Lower end of the 95 % interval; None with fewer than two clusters.
        high: Upper end.
        standard_error: Cluster-robust, for means; None with fewer than two clusters or for other statistics.
        count: Rows in the denominator.
        clusters: Independent units among them.
    """

    value: float
    low: float | None
    high: float | None
    standard_error: float | None
    count: int
    clusters: int

    @staticmethod
    def from_dict(raw: dict[str, Any]) -> Estimate:
        """The estimate that ``dataclasses.asdict`` wrote."""
        return Estimate(**raw)


def cluster_mean(
    scores: Sequence[float],
    clusters: Sequence[str],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    """Mean of the scores with a percentile interval from resampling whole clusters.

    The standard error is that of a ratio of cluster sums: with cluster residuals ``e_c = S_c - mean * n_c``,
    ``sqrt(C / (C - 1) * sum(e_c ** 2)) / R``. For clusters of one row it is the plain standard error of a mean.

    When every row has the same score, resampling shows no spread, though the next video may differ: then, with C
    clusters, the interval allows for the share ``1 - 0.025 ** (1 / C)`` of other scores at the bounds, which is the
    exact (Clopper-Pearson) interval of 0 or C right answers, and the sign test's verdict on C equal differences.

    Args:
        scores: One score per row. [R]
        clusters: The cluster of each row. [R]
        seed: Of the bootstrap.
        draws: Bootstrap draws B.
        bounds: Least and highest possible score.
    """
    return cluster_mean_of_groups(scores, clusters, [""] * len(scores), seed=seed, draws=draws, bounds=bounds)


def cluster_mean_of_groups(
    scores: Sequence[float],
    clusters: Sequence[str],
    groups: Sequence[str],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    """Unweighted mean of the groups' means (a macro average), clusters resampled whole.

    A draw in which a group has no row leaves that group out of that draw's mean.
    """
    _check_lengths(scores, clusters, groups)
    if not scores:
        return Estimate(0.0, None, None, None, 0, 0)
    sums, counts = _cluster_tables(scores, clusters, groups)
    num_clusters, num_groups = sums.shape
    value = float(np.mean(sums.sum(axis=0) / counts.sum(axis=0)))
    if num_clusters < 2:
        return Estimate(value, None, None, None, len(scores), num_clusters)
    if min(scores) == max(scores):
        low, high = _unanimous(value, num_clusters, bounds)
    else:
        low, high = np.quantile(_bootstrap(sums, counts, seed=seed, draws=draws), [0.025, 0.975])
    error = _ratio_error(sums[:, 0], counts[:, 0], value) if num_groups == 1 else None
    return Estimate(value, float(low), float(high), error, len(scores), num_clusters)


def _check_lengths(scores: Sequence[float], clusters: Sequence[str], groups: Sequence[str]) -> None:
    if not len(scores) == len(clusters) == len(groups):
        raise ValueError(
            f"scores, clusters and groups must have one entry per row, "
            f"found {len(scores)}, {len(clusters)} and {len(groups)}"
        )


def _cluster_tables(
    scores: Sequence[float], clusters: Sequence[str], groups: Sequence[str]
) -> tuple[Floats, Floats]:  # both [C, G]
    cluster_names, cluster_of = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    group_names, group_of = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    shape = (len(cluster_names), len(group_names))
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (cluster_of, group_of), np.asarray(scores, dtype=np.float64))
    np.add.at(counts, (cluster_of, group_of), 1.0)
    return sums, counts


def _bootstrap(sums: Floats, counts: Floats, *, seed: int, draws: int) -> Floats:  # [B]
    num_clusters = len(sums)
    rng = np.random.default_rng(seed)
    chances = np.full(num_clusters, 1.0 / num_clusters)
    chunk = max(1, _CHUNK_CELLS // num_clusters)
    values = []
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        times = rng.multinomial(num_clusters, chances, size=size).astype(np.float64)  # [b, C]
        drawn_sums, drawn_counts = times @ sums, times @ counts  # [b, G]
        present = drawn_counts > 0
        means = np.divide(drawn_sums, drawn_counts, out=np.zeros_like(drawn_sums), where=present)
        values.append(means.sum(axis=1) / present.sum(axis=1))
    return np.concatenate(values)


def _unanimous(value: float, num_clusters: int, bounds: tuple[float, float]) -> tuple[float, float]:
    other = 1.0 - 0.025 ** (1.0 / num_clusters)
    return value - other * (value - bounds[0]), value + other * (bounds[1] - value)


def _ratio_error(sums: Floats, counts: Floats, mean: float) -> float:
    num_clusters = len(sums)
    residuals = sums - mean * counts
    return math.sqrt(num_clusters / (num_clusters - 1) * float(residuals @ residuals)) / float(counts.sum())
