"""One evaluation from configuration to summary, top to bottom."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evr_eval._digest import digest_of, model_digest
from evr_eval._items import Item, by_media, read_items
from evr_eval._model_files import engine_fingerprint
from evr_eval._pipeline import Limits, Stages, run_pipeline
from evr_eval._store import ResultStore
from evr_eval.benchmark import Benchmark
from evr_eval.config import EvalConfig
from evr_eval.engine import Engine
from evr_eval.rows import ERROR_OUTCOMES, ResultRow
from evr_eval.summary import RESULTS_FILE, EvalSummary, summarise

if TYPE_CHECKING:
    from pathlib import Path

    from evr_eval._loading import Loader
    from evr_video import FrameCache

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvalProgress:
    """How far a run is.

    Attributes:
        done: Rows with an outcome, those of earlier invocations included.
        total: Questions to answer.
        outcomes: Rows of each outcome so far.
        row: The row just finished; None at the start.
    """

    done: int
    total: int
    outcomes: Mapping[str, int]
    row: ResultRow | None


def evaluate(
    config: EvalConfig,
    *,
    engine: Engine | None = None,
    on_progress: Callable[[EvalProgress], None] | None = None,
) -> EvalSummary:
    """Answers and scores every question of a benchmark, writing each row as it is finished.

    A run that was killed goes on where it stopped: rows of the same sample, record and configuration are kept. What
    counts as configuration is in ``EvalSummary.settings``.

    Args:
        config: What to evaluate and how.
        engine: Generates the responses; default is the one that ``config.engine`` names, on ``config.model_path``. An
            engine that is given is not closed.
        on_progress: Called on this thread at the start and after every row.

    Returns:
        The summary, also written to ``output_dir/summary.json``.

    Raises:
        ValueError: The configuration, the definition, the records or the model folder are wrong, or another process
            writes to ``output_dir``. Or an event loop runs already on this thread: await ``evaluate_async`` there.
        FileNotFoundError: There is no such record file or prompt template.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(evaluate_async(config, engine=engine, on_progress=on_progress))
    raise ValueError("evaluate() starts an event loop of its own; inside one (a notebook) await evaluate_async()")


async def evaluate_async(
    config: EvalConfig,
    *,
    engine: Engine | None = None,
    on_progress: Callable[[EvalProgress], None] | None = None,
) -> EvalSummary:
    """As ``evaluate``, for callers that already run an event loop."""
    start = time.perf_counter()
    benchmark = config.load_definition()
    template = config.format_prompt or benchmark.prompt_template
    questions = read_items(
        benchmark,
        data_dir=config.data_dir,
        template=template,
        skip_bad_records=config.skip_bad_records,
        max_samples=config.max_samples,
    )
    if questions.count_note:
        _log.warning("%s", questions.count_note)
    settings = _settings(config, engine)
    config_hash = digest_of(settings)
    with ResultStore(config.output_dir / RESULTS_FILE) as store:
        keys = [(item.sample_id, config_hash, item.record_digest) for item in questions.items]
        known = [_is_done(store.rows.get(key), config.retry_errors) for key in keys]
        todo = [item for item, done in zip(questions.items, known, strict=True) if not done]
        reporter = _Reporter(store, len(keys), on_progress)
        reporter.start([store.rows[key] for key, done in zip(keys, known, strict=True) if done])
        media: dict[str, float] = {}
        if todo:
            media = await _answer(config, benchmark, template, todo, config_hash, reporter, engine)
        rows = [store.rows[key] for key in keys]
    summary = summarise(
        rows,
        benchmark,
        num_expected=questions.num_expected,
        seed=config.seed,
        config_hash=config_hash,
        settings=settings,
        model_path=str(config.model_path),
        count_note=questions.count_note,
        rejected=tuple(str(record) for record in questions.rejected),
        wall_s=time.perf_counter() - start,
        resumed_rows=len(rows) - len(todo),
        torn_lines=store.torn_lines,
        media=media,
    )
    summary.write(config.output_dir)
    return summary


def _settings(config: EvalConfig, engine: Engine | None) -> dict[str, Any]:
    """Everything that can move a response, and nothing that cannot: worker counts and the device are left out."""
    fingerprint = engine.fingerprint if engine else engine_fingerprint(config.engine, config.device, config.dtype)
    sampling = dataclasses.asdict(config.sampling())
    if config.temperature == 0:  # greedy: the others have no effect
        sampling = {"max_tokens": config.max_tokens, "temperature": 0.0}
    return {
        "model_digest": model_digest(config.model_path),
        "engine": dict(fingerprint),
        "video": dataclasses.asdict(config.video_budget()),
        "image_pixels": [config.image_min_pixels, config.image_max_pixels],
        "sampling": sampling,
    }


def _is_done(row: ResultRow | None, retry_errors: bool) -> bool:
    return row is not None and not (retry_errors and row.outcome in ERROR_OUTCOMES)


async def _answer(
    config: EvalConfig,
    benchmark: Benchmark,
    template: str | Path | None,
    todo: list[Item],
    config_hash: str,
    reporter: _Reporter,
    engine: Engine | None,
) -> dict[str, float]:
    """Runs the questions through the pipeline; the frame cache's counters."""
    from evr_eval._scoring import RowBuilder

    loader, cache = _loader(config, template)
    used = engine or _make_engine(config)
    stages = Stages(
        load=loader,
        engine=used,
        sampling=config.sampling(),
        score=RowBuilder(
            config_hash=config_hash, benchmark=benchmark.label, media_dir=benchmark.media_path(config.data_dir)
        ),
        sink=reporter.add,
    )
    try:
        limits = Limits(config.load_workers, config.score_workers, config.queue_size)
        await run_pipeline(by_media(todo), stages, limits)
    finally:
        if engine is None:
            used.close()
    return {"cache_hits": cache.hits, "cache_misses": cache.misses, "decode_s": cache.decode_s}


def _make_engine(config: EvalConfig) -> Engine:
    if config.engine == "vllm":
        from evr_eval.vllm_engine import VllmEngine

        return VllmEngine(
            config.model_path,
            device=config.device,
            dtype=config.dtype,
            max_model_len=config.max_model_len,
            max_num_seqs=config.max_num_seqs,
            gpu_memory_utilization=config.gpu_memory_utilization,
        )
    from evr_eval.transformers_engine import TransformersEngine

    return TransformersEngine(config.model_path, device=config.device, dtype=config.dtype)


def _loader(config: EvalConfig, template: str | Path | None) -> tuple[Loader, FrameCache]:
    from transformers import AutoConfig, AutoTokenizer

    from evr_core import geometry_for
    from evr_eval._loading import Loader
    from evr_video import FrameCache

    tokenizer = AutoTokenizer.from_pretrained(config.model_path, local_files_only=True, trust_remote_code=False)
    model_config = AutoConfig.from_pretrained(config.model_path, local_files_only=True, trust_remote_code=False)
    cache = FrameCache(config.cache_dir or config.output_dir / "frame_cache")
    loader = Loader(
        cache=cache,
        tokenizer=tokenizer,
        geometry=geometry_for(model_config),
        video=config.video_budget(),
        image_pixels=(config.image_min_pixels, config.image_max_pixels),
        template=template,
    )
    return loader, cache


class _Reporter:
    """Stores finished rows and tells the caller."""

    def __init__(self, store: ResultStore, total: int, on_progress: Callable[[EvalProgress], None] | None) -> None:
        self._store = store
        self._total = total
        self._on_progress = on_progress
        self._outcomes: Counter[str] = Counter()

    def start(self, rows: list[ResultRow]) -> None:
        """Counts the rows of earlier invocations."""
        self._outcomes.update(row.outcome.value for row in rows)
        self._tell(None)

    def add(self, row: ResultRow) -> None:
        """Takes a finished row."""
        self._store.append(row)
        self._outcomes[row.outcome.value] += 1
        self._tell(row)

    def _tell(self, row: ResultRow | None) -> None:
        if self._on_progress is not None:
            self._on_progress(EvalProgress(self._outcomes.total(), self._total, dict(self._outcomes), row))
