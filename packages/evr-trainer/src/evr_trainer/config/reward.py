"""The ``worker.reward`` section."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ._base import Count, PositiveFloat, Rate, Section, Text


class RewardConfig(Section):
    """How responses are scored."""

    reward_function: Text = ""
    """`path/to/file.py:function` (function main when left out); empty means the built-in scorers by problem_type."""
    reward_function_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the reward function."""
    accuracy_weight: Rate = 0.9
    """Share of accuracy in the overall reward of the built-in scorers."""
    format_weight: Rate = 0.1
    """Share of format in the overall reward of the built-in scorers; the two shares sum to 1."""
    skip_special_tokens: bool = True
    """Leave special tokens out of the text that is scored."""
    num_cpus: Count = 1
    """Processes that score responses."""
    timeout_s: PositiveFloat = 30.0
    """Seconds after which scoring one record is given up; it then counts as timeout, not as wrong."""
