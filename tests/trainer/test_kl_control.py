"""The controller of the KL coefficient, by hand after Ziegler et al. 2019, section 2.2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evr_trainer.kl_control import KLController


@given(st.floats(0.0, 100.0), st.integers(0, 10_000))
def test_a_fixed_coefficient_stays(kl: float, num_samples: int) -> None:
    controller = KLController(coef=0.03, target=0.1, horizon=10.0)
    controller.update(kl, num_samples)
    assert controller.coef == 0.03


@pytest.mark.parametrize(
    ("kl", "factor"),
    [
        (2.0, 1.0),  # on target
        (2.2, 1.0 + 0.1 * 50 / 1000),  # a tenth too far: error 0.1
        (1.8, 1.0 - 0.1 * 50 / 1000),
        (2.4, 1.0 + 0.2 * 50 / 1000),  # a fifth is where the error is cut off ...
        (9.0, 1.0 + 0.2 * 50 / 1000),  # ... and this is beyond it
        (1.6, 1.0 - 0.2 * 50 / 1000),
        (0.0, 1.0 - 0.2 * 50 / 1000),
        (-1.0, 1.0 - 0.2 * 50 / 1000),  # an estimate of a divergence may be negative
    ],
)
def test_one_adaptive_step_by_hand(kl: float, factor: float) -> None:
    controller = KLController(coef=0.5, adaptive=True, target=2.0, horizon=1000.0)
    controller.update(kl, num_samples=50)
    assert controller.coef == pytest.approx(0.5 * factor, rel=1e-12)


def test_adaptive_steps_multiply() -> None:
    """Errors 0.2 (cut off), -0.1 and 0.05, over 100, 200 and 400 of 1,000 samples."""
    controller = KLController(coef=1.0, adaptive=True, target=0.1, horizon=1000.0)
    for kl, num_samples in ((0.5, 100), (0.09, 200), (0.105, 400)):
        controller.update(kl, num_samples)
    assert controller.coef == pytest.approx(1.02 * 0.98 * 1.02, rel=1e-12)


def test_a_controller_taken_up_again_from_its_coefficient_goes_on_the_same() -> None:
    uninterrupted = KLController(coef=0.2, adaptive=True, target=0.3, horizon=64.0)
    for kl in (0.1, 0.32, 0.5):
        uninterrupted.update(kl, num_samples=8)
    resumed = KLController(coef=uninterrupted.coef, adaptive=True, target=0.3, horizon=64.0)
    for controller in (uninterrupted, resumed):
        controller.update(0.25, num_samples=8)
    assert resumed == uninterrupted


def test_steered_to_a_steady_state() -> None:
    """Where a larger coefficient means a smaller divergence (here kl = 0.02 / coef), it ends at the target."""
    controller = KLController(coef=1.0, adaptive=True, target=0.1, horizon=1000.0)
    for _ in range(400):
        controller.update(0.02 / controller.coef, num_samples=100)
    assert controller.coef == pytest.approx(0.2, rel=1e-2)
