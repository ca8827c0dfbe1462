"""Sampling responses from a copy of the policy: one protocol, a vLLM and a transformers engine."""

from evr_trainer.rollout.engine import (
    EngineOptions,
    Response,
    RolloutEngine,
    SamplingParams,
    make_engine,
)
from evr_trainer.rollout.tokens import end_token_ids, forbidden_token_ids

__all__ = [
    "EngineOptions",
    "Response",
    "RolloutEngine",
    "SamplingParams",
    "end_token_ids",
    "forbidden_token_ids",
    "make_engine",
]
