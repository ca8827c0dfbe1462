"""The process that runs the reward function. It imports no torch, so that it starts fast and stays small."""

from __future__ import annotations

from typing import Any

from evr_rewards import RewardFunction, load_reward_function
from evr_trainer.config import RewardConfig

__all__ = ["RewardProcess", "load_rewards"]


def load_rewards(config: RewardConfig) -> RewardFunction:
    """The reward function of a configuration.

    Raises:
        ValueError: Its file or function does not exist, or does not take the options.
    """
    options: dict[str, Any] = {"timeout_s": config.timeout_s, **config.reward_function_kwargs}
    if not config.reward_function:
        options |= {"accuracy_weight": config.accuracy_weight, "format_weight": config.format_weight}
    return load_reward_function(config.reward_function or None, **options)


class RewardProcess:
    """Runs the reward function; one Ray actor."""

    def __init__(self, config: RewardConfig) -> None:
        self._config = config
        self._function: RewardFunction | None = None

    def score(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Results in the order of the records; the function is loaded with the first, so that its faults are seen."""
        if self._function is None:
            self._function = load_rewards(self._config)
        return [dict(row) for row in self._function(records)]
