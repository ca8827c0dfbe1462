"""Evaluation of video-language models: fixed denominators, exact resume, intervals clustered by video."""

from __future__ import annotations

from evr_eval._run import EvalProgress, evaluate, evaluate_async
from evr_eval.benchmark import (
    Benchmark,
    FieldNames,
    GroupKey,
    benchmark_from_records,
    builtin_benchmarks,
    load_benchmark,
)
from evr_eval.compare import Comparison, Tally, compare_runs
from evr_eval.config import EvalConfig
from evr_eval.engine import Engine, EngineError, Generation, MediaMismatchError, SamplingSettings
from evr_eval.results import read_results
from evr_eval.rows import ERROR_OUTCOMES, MediaUse, Outcome, ResultRow, Timing
from evr_eval.statistics import Estimate, cluster_mean, cluster_mean_of_groups
from evr_eval.summary import EvalSummary, load_summary
from evr_eval.transformers_engine import TransformersEngine
from evr_eval.vllm_engine import VllmEngine

__all__ = [
    "ERROR_OUTCOMES",
    "Benchmark",
    "Comparison",
    "Engine",
    "EngineError",
    "Estimate",
    "EvalConfig",
    "EvalProgress",
    "EvalSummary",
    "FieldNames",
    "Generation",
    "GroupKey",
    "MediaMismatchError",
    "MediaUse",
    "Outcome",
    "ResultRow",
    "SamplingSettings",
    "Tally",
    "Timing",
    "TransformersEngine",
    "VllmEngine",
    "benchmark_from_records",
    "builtin_benchmarks",
    "cluster_mean",
    "cluster_mean_of_groups",
    "compare_runs",
    "evaluate",
    "evaluate_async",
    "load_benchmark",
    "load_summary",
    "read_results",
]
