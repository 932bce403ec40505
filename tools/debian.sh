#!/bin/sh
# Installs the servers and the browser that tests talk to and that no Python package brings, where they are missing.
# In: a Debian or Ubuntu with apt-get. Out: mosquitto and chromium on PATH.

set -eu

missing=""
command -v mosquitto >/dev/null 2>&1 || [ -x /usr/sbin/mosquitto ] || missing="$missing mosquitto"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "the tests need$missing: install them with your system's package manager" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "the tests need$missing: sudo apt-get update && sudo apt-get install -y$missing" >&2
  exit 1
fi
echo "installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
