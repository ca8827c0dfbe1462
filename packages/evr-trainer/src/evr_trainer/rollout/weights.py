"""Checking a stream of weights against a model's parameters, without holding it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch


class WeightLedger:
    """Knows the names and shapes that a complete weight sync must bring."""

    def __init__(self, shapes: Mapping[str, torch.Size], aliases: Mapping[str, str]) -> None:
        """``aliases`` maps every name, also those of tied parameters, to the name its tensor is first known by."""
        self._shapes = shapes
        self._aliases = aliases

    @classmethod
    def of(cls, model: torch.nn.Module) -> WeightLedger:
        """The ledger of a transformers model; a tied parameter may come by any of its names."""
        first: dict[int, str] = {}
        shapes: dict[str, torch.Size] = {}
        aliases: dict[str, str] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            shapes[name] = parameter.shape
            aliases[name] = first.setdefault(id(parameter), name)
        return cls(shapes, aliases)

    @classmethod
    def of_checkpoint(cls, model_path: Path) -> WeightLedger:
        """The ledger of the model in ``model_path``, from its configuration alone."""
        from transformers import AutoConfig, AutoModelForImageTextToText

        config: Any = AutoConfig.from_pretrained(str(model_path), local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(config)
        model.tie_weights()
        return cls.of(model)

    def watch(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        """Pass ``weights`` on and refuse what does not fit.

        Raises:
            ValueError: At an unknown name or a wrong shape, and at the end when parameters did not come.
        """
        missing = set(self._aliases.values())
        for name, tensor in weights:
            self._check(name, tensor)
            missing.discard(self._aliases[name])
            yield name, tensor
        if missing:
            raise ValueError(
                f"weight sync lacks {len(missing)} of {len(set(self._aliases.values()))} parameters, "
                f"among them {sorted(missing)[:3]}; send every parameter, the frozen ones too"
            )

    def _check(self, name: str, tensor: torch.Tensor) -> None:
        if name not in self._shapes:
            raise ValueError(
                f"weight sync brings {name!r}, which the model does not have; send transformers' parameter names, "
                f"such as {next(iter(self._shapes))!r}"
            )
        if tensor.shape != self._shapes[name]:
            raise ValueError(
                f"weight {name!r} has shape {tuple(tensor.shape)}, expected {tuple(self._shapes[name])}; "
                "gather shards into full tensors first"
            )
