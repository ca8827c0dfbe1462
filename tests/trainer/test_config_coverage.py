"""Every key works or is refused: no key may be read by nobody and still be accepted in silence."""

from __future__ import annotations

import re
from pathlib import Path

import evr_trainer
from evr_trainer.config import SftConfig, config_schema_rows
from evr_trainer.config._ignored import IGNORED
from evr_trainer.config._not_yet import NOT_YET

# Keys that a rule about their whole section or about several of them at once takes care of.
BY_RULE = (
    "worker.critic.",  # ignored with a warning unless gae trains a critic
    "worker.ref.",  # refused where it differs from the actor
    "algorithm.filter_",  # ignored with a warning without online_filtering
    "worker.rollout.mix_policy_accuracy_threshold",  # refused without enable_mix_policy
)
ONE_VALUE = ("worker.actor.strategy",)
REFUSED = ("worker.actor.model.trust_remote_code", "model.trust_remote_code")


def _code_that_reads_configurations() -> str:
    root = Path(evr_trainer.__file__).parent
    files = [file for file in root.rglob("*.py") if "config" not in file.relative_to(root).parts]
    derived = ["root.py", "data.py", "trainer.py", "policy.py", "algorithm.py", "sft.py"]
    return "\n".join(
        [file.read_text() for file in files]
        + [re.sub(r'"""(.|\n)*?"""', "", (root / "config" / name).read_text()) for name in derived]
    )


def _unread(paths: list[str]) -> set[str]:
    code = _code_that_reads_configurations()
    return {path for path in paths if not re.search(rf"\.{path.rsplit('.', 1)[-1]}\b", code)}


def test_every_key_of_training_is_read_refused_or_named_as_without_effect() -> None:
    accounted = {item.path for item in (*NOT_YET, *IGNORED)} | {*ONE_VALUE, *REFUSED}
    unread = _unread([row.path for row in config_schema_rows()]) - accounted
    assert {path for path in unread if not path.startswith(BY_RULE)} == set()


def test_every_key_of_fine_tuning_is_read_refused_or_named_as_without_effect() -> None:
    accounted = {item.path.removeprefix("worker.actor.") for item in (*NOT_YET, *IGNORED)} | {*REFUSED}
    unread = _unread([row.path for row in config_schema_rows(SftConfig)]) - accounted
    assert unread == set()
