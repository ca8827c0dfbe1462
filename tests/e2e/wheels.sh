#!/usr/bin/env bash
# Builds the wheel of every member and imports each one alone, in a fresh environment outside the repository, from its
# wheel and what the wheel itself declares. evr_core and evr_rewards must bring none of the heavy frameworks with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

uv=$(uv --version >/dev/null 2>&1 && command -v uv || echo "$PWD/.uv/bin/uv")
python=$PWD/.venv/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$uv" build --quiet --all-packages --wheel --out-dir "$work/wheels"

# Third-party packages resolve as in the workspace (the same date limit and forced versions); members only to the wheels
# just built, whatever an index may hold under their names.
"$python" - "$work" <<'PY'
import pathlib, sys, tomllib
uv = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["tool"]["uv"]
work = pathlib.Path(sys.argv[1])
members = [f"{w.name.split('-')[0].replace('_', '-')} @ {w.as_uri()}" for w in sorted((work / "wheels").glob("*.whl"))]
(work / "overrides.txt").write_text("\n".join(uv["override-dependencies"] + members) + "\n")
(work / "exclude-newer").write_text(uv["exclude-newer"])
PY

files_of() { (cd "$1" && find . -type f -not -path '*/__pycache__/*' | sort); }

import_alone() { # import_alone <distribution> <module> <modules that must not be importable, comma separated>
  local dist=$1 module=$2 forbidden=$3 env="$work/$1" since=$SECONDS
  "$uv" venv --quiet --python "$python" "$env"
  (cd "$work" && "$uv" pip install --quiet --python "$env/bin/python" --no-config --link-mode=hardlink \
    --overrides overrides.txt --exclude-newer "$(cat exclude-newer)" "wheels/${module}"-*.whl)
  (cd "$work" && "$env/bin/python" -I - "$module" "$forbidden" <<'PY'
import importlib, importlib.metadata, importlib.util, pathlib, sys
name, forbidden = sys.argv[1], [m for m in sys.argv[2].split(",") if m]
module = importlib.import_module(name)
assert "site-packages" in pathlib.Path(module.__file__).parts, f"{name} came from {module.__file__}, not from its wheel"
missing = [public for public in getattr(module, "__all__", ()) if not hasattr(module, public)]
assert not missing, f"{name}.__all__ names what is not there: {missing}"
present = [m for m in forbidden if importlib.util.find_spec(m) is not None]
assert not present, f"{name} must not pull in {present}"
assert (pathlib.Path(module.__file__).parent / "py.typed").exists(), f"{name} ships no py.typed"
PY
  )
  local source=packages/$dist/src/$module
  [ -d "$source" ] || source=apps/src/$module
  diff <(files_of "$source") <(files_of "$env"/lib/python*/site-packages/"$module") # every template and definition is in it
  [ "$dist" != evr-apps ] || (cd "$work" && "$env/bin/evr" --version)
  rm -rf "$env"
  printf '  %s imports from its own wheel%s (%d s)\n' "$dist" "${forbidden:+, without $forbidden}" $((SECONDS - since))
}

readonly HEAVY=torch,ray,vllm,transformers
import_alone evr-core evr_core "$HEAVY"
import_alone evr-rewards evr_rewards "$HEAVY"
import_alone evr-video evr_video transformers,ray,vllm
import_alone evr-eval evr_eval ray,vllm
import_alone evr-trainer evr_trainer vllm
import_alone evr-apps evr_apps vllm
