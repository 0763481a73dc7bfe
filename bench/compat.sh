#!/usr/bin/env bash
# The catalogue and the client's tests under every supported Python and library version; a table at the end.
#
#   bench/compat.sh              every row of the plan below
#   PYTHONS="python3.12 /opt/py313/bin/python" bench/compat.sh      these interpreters instead of 3.11, 3.12, 3.13
#   FOLDER=/tmp/compat bench/compat.sh                              keep the environments there and use them again
#
# An interpreter that is not there is skipped, with the reason. Ends with 1 when a run failed or nothing ran at all.
# pip's own variables are honoured (PIP_NO_INDEX, PIP_FIND_LINKS).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

WEBSOCKETS_OLDEST="${WEBSOCKETS_OLDEST:-websockets==16.0}"
WEBSOCKETS_NEWEST="${WEBSOCKETS_NEWEST:-websockets>=17,<18}"
AIOHTTP_OLDEST="${AIOHTTP_OLDEST:-aiohttp==3.14.0}"
AIOHTTP_NEWEST="${AIOHTTP_NEWEST:-aiohttp>=3.14,<4}"
# Not the whole product: each version meets each Python, and each pair of versions occurs.
PLAN=(
  "3.11 oldest oldest" "3.11 newest newest"
  "3.12 oldest newest" "3.12 newest oldest"
  "3.13 oldest oldest" "3.13 newest newest"
)

if [ -n "${FOLDER:-}" ]; then
  mkdir -p "$FOLDER"
else
  FOLDER="$(mktemp -d)"
  trap 'rm -rf "$FOLDER"' EXIT
fi

# Prints an interpreter of this version: named in PYTHONS, on the path, or installed by pyenv; nothing when there is none.
# A shim that is on the path but runs nothing is passed over.
find_python() {
  local version="$1" candidate
  for candidate in ${PYTHONS:-"python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python}; do
    if [ "$("$candidate" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ]; then
      echo "$candidate"
      return
    fi
  done
}

# What pyproject.toml asks for, less the two libraries whose version is the question, under CI's pins less theirs.
requirements() {
  "$1" - <<'PY'
import re, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
for line in [*project["dependencies"], *extras["dataset"], *extras["dev"]]:
    if re.split(r"[^\w.-]", line)[0] not in ("websockets", "aiohttp"):
        print(line)
PY
}

# One environment a Python; the pair of libraries is put into it for each row.
environment() {
  local version="$1" python="$2" env="$FOLDER/$1"
  [ -e "$env/.complete" ] && return
  "$python" -m venv --clear "$env" || return
  requirements "$env/bin/python" >"$FOLDER/requirements-$version.txt" || return
  grep -Ev '^(websockets|aiohttp)==' constraints.txt >"$FOLDER/constraints.txt"
  "$env/bin/python" -m pip install --quiet --constraint "$FOLDER/constraints.txt" hatchling editables \
    --requirement "$FOLDER/requirements-$version.txt" || return
  "$env/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable . || return
  touch "$env/.complete"
}

spec() {
  local name="$1_$2"
  echo "${!name}"
}

# timed COMMAND...: its output goes to $log; prints ok with the seconds it took, or FAILED.
timed() {
  local began=$SECONDS
  if "$@" >>"$log" 2>&1; then echo "ok, $((SECONDS - began)) s"; else echo "FAILED"; fi
}

rows=()
failed=0
ran=0
row() { rows+=("$(printf '%-8s %-12s %-12s %-14s %-14s %s' "$@")"); }
row Python websockets aiohttp catalogue "client tests" ""

for entry in "${PLAN[@]}"; do
  read -r version ws aio <<<"$entry"
  log="$FOLDER/$version-$ws-$aio.log"
  : >"$log"
  echo "Python $version, websockets $ws, aiohttp $aio ..."
  python="$(find_python "$version")"
  if [ -z "$python" ]; then
    row "$version" "$ws" "$aio" skipped skipped "no Python $version with venv in PYTHONS, on the path or in pyenv"
    continue
  fi
  bin="$FOLDER/$version/bin"
  if ! environment "$version" "$python" >>"$log" 2>&1 ||
    ! "$bin/python" -m pip install --quiet --upgrade --upgrade-strategy only-if-needed \
      "$(spec WEBSOCKETS "${ws^^}")" "$(spec AIOHTTP "${aio^^}")" >>"$log" 2>&1; then
    row "$version" "$ws" "$aio" FAILED FAILED "the environment could not be built"
    tail -n 20 "$log" >&2
    failed=1
    continue
  fi
  installed="$("$bin/python" -c 'from importlib.metadata import version as v; print(v("websockets"), v("aiohttp"))')"
  exact="$("$bin/python" -c 'import platform; print(platform.python_version())')"
  catalogue="$(timed "$bin/python" -m conformance run)"
  tests="$(timed "$bin/python" -m pytest -q -p no:cacheprovider tests/client)"
  ran=$((ran + 1))
  row "$exact" ${installed} "$catalogue" "$tests" ""
  if [[ "$catalogue$tests" == *FAILED* ]]; then
    failed=1
    grep -E '^(FAILED|fail|inert|harness)' "$log" | head -n 20 >&2
    tail -n 3 "$log" >&2
  fi
done

printf '\n'
printf '%s\n' "${rows[@]}"
if [ "$ran" -eq 0 ]; then
  echo "nothing ran" >&2
  failed=1
fi
exit "$failed"
