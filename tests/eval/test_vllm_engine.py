from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evr_eval import EvalConfig, evaluate, read_results
from support_eval import COLOURS, SMALL, make_media, question, tiny_model, write_records

RUN = """
import sys
from evr_eval import EvalConfig, evaluate

if __name__ == "__main__":
    evaluate(EvalConfig.model_validate_json(sys.argv[1]))
"""


@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_vllm_gives_the_same_rows_as_transformers(tmp_path: Path) -> None:
    model_path = tiny_model(tmp_path / "model")
    make_media(tmp_path)
    records = [question(f"q{index}", f"{COLOURS[index % 4]}.mp4", "yes") for index in range(8)]
    records += [question("text", None, "no"), question("gone", "gone.mp4", "no")]
    records.append({**question("long", None, "no"), "problem": "red " * 1500})
    write_records(tmp_path / "r.jsonl", records)
    fields = {"model_path": model_path, "records": tmp_path / "r.jsonl", "media_dir": tmp_path, "max_tokens": 8}
    fields |= {"cache_dir": tmp_path / "frames", "device": "cpu", "max_model_len": 1024, "max_num_seqs": 8, **SMALL}
    ours = evaluate(EvalConfig.model_validate({**fields, "output_dir": tmp_path / "transformers"}))
    config = EvalConfig.model_validate({**fields, "output_dir": tmp_path / "vllm", "engine": "vllm"})
    # in a process of its own, as vLLM starts its engine by running the main script again
    script = tmp_path / "run.py"
    script.write_text(RUN)
    done = subprocess.run(
        [sys.executable, str(script), config.model_dump_json()],
        timeout=560,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads((tmp_path / "vllm" / "summary.json").read_text())
    assert theirs["outcomes"] == dict(ours.outcomes)
    assert (ours.outcomes["media_error"], ours.outcomes["engine_error"]) == (1, 1)
    for a, b in zip(read_results(tmp_path / "transformers"), read_results(tmp_path / "vllm"), strict=True):
        assert (a.sample_id, a.response, a.finish_reason) == (b.sample_id, b.response, b.finish_reason)
        assert (a.prompt_hash, a.media) == (b.prompt_hash, b.media)
