"""Everything that can be wrong with a configuration besides single values; no model is loaded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from evr_core import geometry_for
from evr_core.geometry import ModelGeometry

from ._check_algorithm import algorithm_problems, run_problems
from ._check_batches import batch_problems
from ._check_files import file_problems
from ._check_pixels import pixel_problems
from ._not_yet import not_yet_problems
from .data import DataConfig
from .errors import ConfigError, Problem
from .load import load_leniently, log_warnings
from .policy import ModelConfig
from .root import TrainConfig
from .tokens import VIDEO_ONLY, Medium, check_token_budget


def check_config(
    config: TrainConfig, *, geometry: ModelGeometry | None = None, media: Collection[Medium] = VIDEO_ONLY
) -> list[Problem]:
    """All problems of values that do not fit together, are not available, or name what does not exist.

    Args:
        config: What is checked.
        geometry: Patch sizes of the model; by default those of its ``config.json``, or of its family by name.
        media: The media that the records hold, for the token budget.
    """
    pixels = list(pixel_problems(config.data))
    problems = [
        *not_yet_problems(config),
        *batch_problems(config),
        *algorithm_problems(config),
        *run_problems(config),
        *pixels,
        *file_problems(config),
    ]
    if not pixels:
        problems += budget_problems(config.data, config.worker.actor.model, "worker.actor.model", geometry, media)
    return problems


def require_valid(config: TrainConfig, *, media: Collection[Medium] = VIDEO_ONLY) -> None:
    """Raise one ``ConfigError`` with all problems of ``check_config``, if there are any."""
    problems = check_config(config, media=media)
    if problems:
        raise ConfigError(problems)


def load_checked_config(
    file: Path | str | None = None, overrides: Sequence[str] = (), *, media: Collection[Medium] = VIDEO_ONLY
) -> TrainConfig:
    """``load_config`` and ``check_config`` in one: wrong values and what does not fit are reported together.

    Raises:
        ConfigError: lists every problem. Values that could not be read count as their defaults in the checks.
    """
    config, problems = load_leniently(TrainConfig, file, overrides)
    known = {problem.path for problem in problems}
    if "data.val_files" in known:
        known |= {"trainer.val_freq", "trainer.val_only"}  # whether there are records to validate on is not known
    problems += [problem for problem in check_config(config, media=media) if problem.path not in known]
    if problems:
        raise ConfigError(problems)
    log_warnings(config)
    return config


def budget_problems(
    data: DataConfig, model: ModelConfig, section: str, geometry: ModelGeometry | None, media: Collection[Medium]
) -> list[Problem]:
    """The token budget against the model's geometry; nothing where the geometry cannot be known without a download."""
    folder = Path(model.model_path).expanduser()
    local = bool(model.model_path) and (folder / "config.json").is_file()
    if geometry is None:
        if folder.is_dir() and not local:
            return []  # the missing config.json is a problem of its own
        try:
            geometry = geometry_for(folder if local else model.model_path)
        except ValueError as error:
            reason = f"unusable config.json: {error}"
            return [Problem(f"{section}.model_path", reason, model.model_path)] if local else []
    return check_token_budget(data, geometry, media=media)
