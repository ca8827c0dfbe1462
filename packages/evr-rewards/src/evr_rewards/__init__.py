"""Answer extraction and scoring for every video question type. No torch; scorers load on first use."""

from __future__ import annotations

from evr_rewards.batch import BatchOptions, score_records
from evr_rewards.extraction import Extraction, Source
from evr_rewards.functions import RewardFunction, load_reward_function
from evr_rewards.records import outcome_counts, sample_from_record, score_record
from evr_rewards.registry import Scorer, canonical_type, get_scorer, known_types, register_scorer
from evr_rewards.result import Grade, JudgeError, Outcome, RewardResult, RewardWeights, TruthError
from evr_rewards.scorers.choice import extract_choice
from evr_rewards.scoring import format_reward, score

__all__ = [
    "BatchOptions",
    "Extraction",
    "Grade",
    "JudgeError",
    "Outcome",
    "RewardFunction",
    "RewardResult",
    "RewardWeights",
    "Scorer",
    "Source",
    "TruthError",
    "canonical_type",
    "extract_choice",
    "format_reward",
    "get_scorer",
    "known_types",
    "load_reward_function",
    "outcome_counts",
    "register_scorer",
    "sample_from_record",
    "score",
    "score_record",
    "score_records",
]
