from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from evr_eval import cluster_mean, cluster_mean_of_groups


def test_standard_error_of_independent_rows_is_the_textbook_one() -> None:
    scores = [1.0, 0.0, 0.0, 1.0, 1.0]
    estimate = cluster_mean(scores, list("abcde"))
    # mean 0.6, sample variance 0.3, standard error sqrt(0.3 / 5)
    assert estimate.value == pytest.approx(0.6)
    assert estimate.standard_error == pytest.approx(math.sqrt(0.3 / 5))
    assert (estimate.count, estimate.clusters) == (5, 5)


def test_standard_error_of_clusters_by_hand() -> None:
    # video a: 1 1 1, video b: 0 0, video c: 1 0 -> mean 4/7
    # residuals S - mean n: 3 - 12/7 = 9/7, 0 - 8/7 = -8/7, 1 - 8/7 = -1/7; squares sum to 146/49
    estimate = cluster_mean([1, 1, 1, 0, 0, 1, 0], ["a", "a", "a", "b", "b", "c", "c"])
    assert estimate.value == pytest.approx(4 / 7)
    assert estimate.standard_error == pytest.approx(math.sqrt(3 / 2 * 146 / 49) / 7)


def test_interval_equals_the_enumerated_distribution_of_all_resamples() -> None:
    sums, counts = [3.0, 0.0, 1.0, 2.0], [3, 2, 2, 3]
    draws = [
        sum(sums[i] for i in chosen) / sum(counts[i] for i in chosen)
        for chosen in itertools.product(range(4), repeat=4)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    scores = [1, 1, 1, 0, 0, 1, 0, 1, 1, 0]
    estimate = cluster_mean(scores, list("aaabbccddd"), draws=40_000)
    assert estimate.low == pytest.approx(low, abs=0.02)
    assert estimate.high == pytest.approx(high, abs=0.02)


def test_questions_on_one_video_widen_the_interval() -> None:
    scores = [1.0] * 50 + [0.0] * 50
    apart = cluster_mean(scores, [str(index) for index in range(100)])
    together = cluster_mean(scores, [str(index // 10) for index in range(100)])
    assert apart.standard_error is not None
    assert together.standard_error is not None
    # ten equal rows per video: a tenth of the information, with C / (C - 1) for 10 instead of 100 clusters
    assert together.standard_error / apart.standard_error == pytest.approx(math.sqrt(10 * (10 / 9) / (100 / 99)))


def test_same_seed_same_interval_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, clusters = [1, 0, 1, 1, 0, 0], list("aabbcc")
    whole = cluster_mean(scores, clusters, seed=3)
    assert cluster_mean(scores, clusters, seed=3) == whole
    monkeypatch.setattr("evr_eval.statistics._CHUNK_CELLS", 100)
    assert cluster_mean(scores, clusters, seed=3) == whole


def test_one_cluster_has_no_interval_and_no_rows_no_value() -> None:
    one = cluster_mean([1, 0], ["a", "a"])
    assert (one.value, one.low, one.high, one.standard_error) == (0.5, None, None, None)
    assert cluster_mean([], []).count == 0


def test_unanimous_rows_still_have_an_interval() -> None:
    # 0 of 5 right: Clopper-Pearson gives [0, 0.5218]; by symmetry 5 of 5 gives [0.4782, 1]
    none, every = cluster_mean([0] * 5, list("abcde")), cluster_mean([1] * 5, list("abcde"))
    assert (none.low, none.high) == (0.0, pytest.approx(0.5218, abs=1e-4))
    assert (every.low, every.high) == (pytest.approx(0.4782, abs=1e-4), 1.0)
    # ten rows on two videos know as much as two
    assert cluster_mean([0] * 10, list("aaaaabbbbb")).high == pytest.approx(1 - 0.025**0.5)


@pytest.mark.parametrize(("wins", "significant"), [(5, False), (6, True)])  # sign test: p = 0.0625 and 0.03125
def test_unanimous_differences_agree_with_the_sign_test(wins: int, significant: bool) -> None:
    low = cluster_mean([1.0] * wins, [str(index) for index in range(wins)], bounds=(-1.0, 1.0)).low
    assert low is not None
    assert (low > 0) == significant


def test_mean_of_groups_weighs_groups_not_rows() -> None:
    # task x: 1 of 4 right, task y: 1 of 1 right -> (0.25 + 1) / 2, where the plain mean is 0.4
    estimate = cluster_mean_of_groups([1, 0, 0, 0, 1], list("abcde"), list("xxxxy"))
    assert estimate.value == pytest.approx(0.625)
    assert estimate.low is not None
    assert estimate.low < 0.625


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="found 2, 1 and 2"):
        cluster_mean([1, 0], ["a"])
