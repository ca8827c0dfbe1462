"""Importing is cheap and pulls in nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys, time
import evr_core.schema
started = time.process_time()
import evr_rewards
took = time.process_time() - started
record = {"response": "<answer>B</answer>", "ground_truth": "B", "problem_type": "multiple choice"}
evr_rewards.load_reward_function()([record])
heavy = ["torch", "ray", "vllm", "transformers", "math_verify", "sympy", "rouge_score", "jiwer", "httpx"]
print(json.dumps({"took": took, "heavy": [name for name in heavy if name in sys.modules]}))
"""


def test_import_is_fast_and_light():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    measured = json.loads(done.stdout)
    assert measured["heavy"] == []
    assert measured["took"] < 0.3
