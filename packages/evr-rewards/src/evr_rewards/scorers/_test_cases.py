"""Bring the usual forms of code tests into one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from evr_core.schema import Sample
from evr_rewards.result import TruthError

_FIELDS: Final = ("tests", "test_cases", "test_list", "unit_tests", "input_output", "test")
_MAX_TESTS: Final = 100
_CALL: Final = """
import json as _json
_owner = globals().get("Solution")
_function = globals().get({name!r}) or getattr(_owner(), {name!r})
_plain = lambda value: _json.loads(_json.dumps(value, default=list))
assert _plain(_function(*_json.loads({args!r}))) == _json.loads({expected!r})
"""


def tests_of(sample: Sample) -> list[dict[str, str]]:
    """The sample's tests, from a field of the record or from an answer that is JSON; empty when there are none.

    Forms: assertions (a text or a list of texts), ``{"input", "output"}`` pairs for programs that read standard input,
    ``{"inputs", "outputs", "fn_name"}`` for both programs and functions.

    Raises:
        TruthError: there are tests in an unknown form.
    """
    given = next((sample.extra[name] for name in _FIELDS if sample.extra.get(name)), None)
    if given is None and sample.answer.lstrip()[:1] in ("[", "{"):
        given = _json(sample.answer)
    if isinstance(given, str):
        given = _json(given) or given
    return _tests(given)[:_MAX_TESTS] if given else []


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, (list, dict)) else None


def _tests(given: Any) -> list[dict[str, str]]:
    if isinstance(given, str):
        return [{"check": given}]
    if isinstance(given, Mapping) and "inputs" in given and "outputs" in given:
        name = given.get("fn_name")
        pairs = zip(given["inputs"], given["outputs"], strict=False)
        return [_pair(inputs, output, name) for inputs, output in pairs]
    if isinstance(given, Mapping):
        inner = next((given[field] for field in _FIELDS if given.get(field)), None)
        return _tests([given]) if inner is None else _tests(inner)
    if isinstance(given, (list, tuple)):
        return [test for item in given for test in _one(item)]
    raise TruthError(f"tests are {type(given).__name__}; expected assertions, or input and output pairs")


def _one(item: Any) -> list[dict[str, str]]:
    if isinstance(item, str):
        return [{"check": item}]
    if isinstance(item, Mapping):
        inputs = next((item[name] for name in ("input", "stdin", "args") if name in item), None)
        output = next(
            (item[name] for name in ("output", "expected_output", "stdout", "expected") if name in item), None
        )
        if output is not None:
            return [_pair("" if inputs is None else inputs, output, item.get("fn_name") or item.get("function"))]
    raise TruthError(f'test {str(item)[:80]!r} is neither an assertion nor {{"input": ..., "output": ...}}')


def _pair(inputs: Any, output: Any, name: Any) -> dict[str, str]:
    if name:
        args = inputs if isinstance(inputs, list) else [inputs]
        return {"check": _CALL.format(name=str(name), args=json.dumps(args), expected=json.dumps(output))}
    return {"stdin": _lines(inputs), "stdout": _lines(output)}


def _lines(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
