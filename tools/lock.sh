#!/bin/sh
# Writes requirements.lock from pyproject.toml: every version exact, with hashes, for every supported
# Python and system. Pins that still fit are kept; UPGRADE=1 takes the newest of each.

set -eu
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

python=$(tools/setup.sh python)
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.8,<1'

# Compiled aside and moved, so that a failure leaves the old lock; seeded with it, so that its pins are kept.
if [ -f requirements.lock ]; then cp requirements.lock "$scratch/requirements.lock"; fi
"$scratch/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --extra dev \
  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
  ${UPGRADE:+--upgrade} --output-file "$scratch/requirements.lock" pyproject.toml

if grep -n '://' "$scratch/requirements.lock" >&2; then
  echo "requirements.lock must name no address; it is left as it was." >&2
  exit 1
fi
cp "$scratch/requirements.lock" requirements.lock
