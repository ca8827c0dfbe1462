"""Throughput of evr-rewards; the last line is JSON.

mc_per_s, rouge_per_s: scores per second of CPU time on one core, for multiple choice (a response of 60 words with
thinking) and open-ended (15 words against 15). batch_5120_s: seconds for 5,120 mixed records of which 1 % are
mathematics that never ends, with a time-out of 10 s for a record and for the batch; batch_timeouts (1 % is 51) and
batch_errors count those outcomes.
"""

from __future__ import annotations

import json
import time

from evr_core.schema import DataType, ProblemType, Sample
from evr_rewards import BatchOptions, outcome_counts, score, score_records

TIMEOUT_S = 10.0
HANGING = "<answer>$9^{9^{9^{9}}}$</answer>"
THOUGHT = "<think>" + "The camera pans over a street and a car stops near option A or C. " * 4 + "</think>\n"
OPTIONS = ("A. a red car", "B. a blue car", "C. a green bus", "D. a white van")
TRUTH = "a small dog runs across the yard and jumps over the low wooden fence twice"
ANSWER = "the small dog is running over the yard, then it jumps the wooden fence two times"
BOX = '{"boxes": [10, 10, 50, 50]}'
TUBE = '{"time": [0, 2], "boxes": {"0": [0,0,10,10], "1": [0,0,10,10]}}'
SVG = '<svg width="9"><rect x="1"/></svg>'
MIXED = (
    ("multiple choice", THOUGHT + "<answer>B</answer>", "B"),
    ("numerical", "<answer>about 12 people</answer>", "12"),
    ("regression", "<answer>9.6</answer>", "10"),
    ("boolean", "<answer>yes</answer>", "yes"),
    ("temporal grounding", '<answer>{"time": [3, 7]}</answer>', '{"time": [3, 8]}'),
    ("spatial grounding", f"<answer>{BOX}</answer>", BOX),
    ("spatial-temporal grounding", f"<answer>{TUBE}</answer>", TUBE),
    ("tracking", f"<answer>{TUBE}</answer>", TUBE),
    ("open-ended", f"<answer>{ANSWER}</answer>", TRUTH),
    ("ocr", "<answer>STOP AHEAD</answer>", "STOP AHEAD NOW"),
    ("math", "<answer>\\frac{{{n}}}{{2}}+x</answer>", "x+{n}/2"),
    ("svg-code", f"<answer>{SVG}</answer>", SVG),
    ("preference", "<answer>Response 1</answer>", "Response 1"),
)


def per_second(response: str, sample: Sample, seconds: float = 1.0) -> float:
    """Scores per second of CPU time; every response is a new text."""
    for n in range(200):
        score(f"{n} {response}", sample)
    count, started = 0, time.process_time()
    while (took := time.process_time() - started) < seconds:
        for n in range(200):
            score(f"{count + n} {response}", sample)
        count += 200
    return count / took


def mixed_record(n: int) -> dict[str, object]:
    """Record n of the mixed batch."""
    if n % 100 == 50:
        return {"response": HANGING, "ground_truth": "7", "problem_type": "math"}
    kind, response, truth = MIXED[n % len(MIXED)]
    if kind == "math":
        response, truth = response.format(n=2 * n + 1), truth.format(n=2 * n + 1)
    return {"response": response, "ground_truth": truth, "problem_type": kind, "options": OPTIONS}


def main() -> None:
    """Measure and print."""
    choice = Sample("c", "q", "B", ProblemType.MULTIPLE_CHOICE, DataType.TEXT, options=OPTIONS)
    text = Sample("o", "q", TRUTH, ProblemType.OPEN_ENDED, DataType.TEXT)
    mc_per_s = per_second(THOUGHT + "<answer>B</answer>", choice)
    rouge_per_s = per_second(f"<answer>{ANSWER}</answer>", text)
    options = BatchOptions(timeout_s=TIMEOUT_S, batch_timeout_s=TIMEOUT_S)
    warm = [mixed_record(n) for n in range(40) if n % 100 != 50]
    score_records(warm, BatchOptions(timeout_s=120))  # a trainer pays the start of the math processes once
    records = [mixed_record(n) for n in range(5120)]
    started = time.perf_counter()
    results = score_records(records, options)
    batch_s = time.perf_counter() - started
    counts = outcome_counts(results)
    print(f"outcomes: {counts}")
    print(
        json.dumps(
            {
                "mc_per_s": round(mc_per_s),
                "rouge_per_s": round(rouge_per_s),
                "batch_5120_s": round(batch_s, 2),
                "batch_timeout_s": TIMEOUT_S,
                "batch_timeouts": counts["timeout"],
                "batch_errors": counts["error"],
            }
        )
    )


if __name__ == "__main__":
    main()
