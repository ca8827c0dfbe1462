"""The numbers of the demo: sizes, steps, learning rates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """What decides how long the demo takes and how far the policy gets.

    Attributes:
        num_train: Records for reinforcement learning.
        num_val: Held-out records.
        num_sft: Records of the supervised warm-up.
        sft_steps: Optimizer steps of the warm-up.
        sft_batch_size: Records per warm-up step.
        sft_lr: Highest learning rate of the warm-up.
        rl_steps: Training steps of GRPO.
        rl_batch_size: Prompts per GRPO step.
        group_size: Responses per prompt.
        rl_lr: Highest learning rate of GRPO.
        temperature: Of the sampled responses.
        val_freq: GRPO steps between two validations; -1 for none.
        save_freq: GRPO steps between two checkpoints.
        workers: Worker processes of the trainer.
        max_prompt_length: Tokens.
        max_response_length: Tokens.
    """

    num_train: int = 1200
    num_val: int = 240
    num_sft: int = 2000
    sft_steps: int = 200
    sft_batch_size: int = 32
    sft_lr: float = 3e-3
    rl_steps: int = 100
    rl_batch_size: int = 16
    group_size: int = 8
    rl_lr: float = 2e-4
    temperature: float = 1.0
    val_freq: int = 20
    save_freq: int = 10
    workers: int = 2
    max_prompt_length: int = 512
    max_response_length: int = 32
