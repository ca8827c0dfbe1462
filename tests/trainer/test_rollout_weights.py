"""A weight sync must be complete and of the right shapes."""

from __future__ import annotations

import pytest
import torch

from evr_trainer.rollout.weights import WeightLedger


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


def test_a_tied_parameter_may_come_by_either_name() -> None:
    ledger = WeightLedger.of(Tied())
    for name in ("embed.weight", "head.weight"):
        assert [seen for seen, _ in ledger.watch([(name, torch.zeros(5, 3))])] == [name]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "lacks 1 of 1 parameters, among them \\['embed.weight'\\]"),
        ([("embed.bias", torch.zeros(5))], "'embed.bias', which the model does not have"),
        ([("embed.weight", torch.zeros(5, 2))], "shape \\(5, 2\\), expected \\(5, 3\\)"),
    ],
)
def test_what_does_not_fit_is_refused(weights: list[tuple[str, torch.Tensor]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(WeightLedger.of(Tied()).watch(weights))
