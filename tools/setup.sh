#!/bin/sh
# Makes .venv from requirements.lock, and says in one sentence what the machine lacks.
# In: the machine's Python and Java. Out: a working .venv, marked by .venv/.ready.
#
#   tools/setup.sh           make or repair .venv (no network when the lock is unchanged)
#   tools/setup.sh machine   only look whether Java, and Python where it is still needed, are there
#   tools/setup.sh python    print the interpreter that .venv would be made with
#
# Plain sh, because it has to run and explain itself where there is no Python yet.

set -eu
LC_ALL=C
export LC_ALL

PYTHON_AT_LEAST=11 # of Python 3
PYTHON_TESTED=13
JAVA_AT_LEAST=17

root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"

# An active virtual environment or a site-wide pip habit must not leak into ours.
active=${VIRTUAL_ENV:-}
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV || true
PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_DISABLE_PIP_VERSION_CHECK

say() { printf '%s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
sudo=$([ "$(id -u)" = 0 ] || echo "sudo ")

# ---- the command that mends it -------------------------------------------------------------------

# apt_install PACKAGES VERSION... : PACKAGES with @ read as the first version that this release offers
apt_install() {
  pattern=$1
  shift
  packages=$(echo "$pattern" | sed "s/@/$1/g")
  for version in "$@"; do
    offered=$(echo "$pattern" | sed "s/@/$version/g")
    if apt-cache show $offered 2>/dev/null | grep -q '^Package:'; then
      packages=$offered
      break
    fi
  done
  echo "${sudo}apt-get update && ${sudo}apt-get install -y $packages"
}

install_python() {
  if [ "$(uname -s)" = Darwin ]; then echo "brew install python@3.13"
  elif have apt-get; then apt_install 'python@ python@-venv' 3.11 3.12 3.13
  elif have dnf; then echo "${sudo}dnf install -y python3.13"
  elif have pacman; then echo "${sudo}pacman -S --noconfirm python"
  elif have apk; then echo "${sudo}apk add python3"
  elif have zypper; then echo "${sudo}zypper install -y python313"
  else echo "PYTHON=/path/to/python3.13 make"; fi
}

install_java() {
  if [ "$(uname -s)" = Darwin ]; then
    echo 'brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"'
  elif have apt-get; then apt_install 'openjdk-@-jre-headless' 17 21 25
  elif have dnf; then echo "${sudo}dnf install -y java-21-openjdk-headless"
  elif have pacman; then echo "${sudo}pacman -S --noconfirm jre21-openjdk-headless"
  elif have apk; then echo "${sudo}apk add openjdk17-jre-headless"
  elif have zypper; then echo "${sudo}zypper install -y java-17-openjdk-headless"
  else echo "export JAVA_HOME=/path/to/jdk-17"; fi
}

# ---- Java ----------------------------------------------------------------------------------------

# java_major COMMAND: "17" for 17.0.15, "8" for 1.8.0_392, nothing where no Java answers
java_major() {
  "$1" -version 2>&1 </dev/null | sed -n 's/^.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\)[^"]*".*$/\2/p' | head -n 1
}

check_java() {
  if [ -n "${JAVA_HOME:-}" ]; then
    # Spark looks here first, so a good Java on PATH does not help.
    major=$(java_major "$JAVA_HOME/bin/java")
    on_path=$(java_major java)
    if [ -n "$on_path" ] && [ "$on_path" -ge "$JAVA_AT_LEAST" ]; then mend="unset JAVA_HOME"
    else mend="unset JAVA_HOME && $(install_java)"; fi
    where="JAVA_HOME=$JAVA_HOME"
  else
    major=$(java_major java)
    mend=$(install_java)
    where="the java on your PATH"
  fi
  if [ -z "$major" ]; then
    [ -n "${JAVA_HOME:-}" ] && found="$where holds none" || found="there is none on your PATH"
  elif [ "$major" -lt "$JAVA_AT_LEAST" ]; then
    found="$where is Java $major"
  else
    return 0
  fi
  say "Augury needs Java $JAVA_AT_LEAST or newer, and $found; mend it with: $mend"
  return 1
}

# ---- Python --------------------------------------------------------------------------------------

# python_minor COMMAND: "11" for 3.11.7, nothing for Python 2 or where no Python answers
python_minor() {
  "$1" -c 'import sys; print(sys.version_info[0] == 3 and sys.version_info[1] or "")' 2>/dev/null </dev/null |
    sed -n 's/^\([0-9][0-9]*\)$/\1/p'
}

python_version() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null </dev/null || true; }

# A venv made from a venv's interpreter has to outlive it, so go to the one below.
base_of() { "$1" -c 'import sys; print(getattr(sys, "_base_executable", None) or sys.executable)'; }

path_without_active() {
  printf '%s' "$PATH" | tr ':' '\n' | grep -Fvx "$active/bin" | tr '\n' ':' | sed 's/:$//'
}

# Sets python to the interpreter to use, or says what is missing. First choice: a version that is tested.
find_python() {
  too_old="" no_venv="" untested="" python=""
  if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.13 python3.12 python3.11 python3.14 python; fi
  full_path=$PATH
  for search in "${active:+$(path_without_active)}" "$full_path"; do
    [ -n "$search" ] || continue
    PATH=$search
    for candidate in "$@"; do
      version=$(python_version "$candidate")
      [ -n "$version" ] || continue
      minor=$(python_minor "$candidate")
      if [ -z "$minor" ] || [ "$minor" -lt "$PYTHON_AT_LEAST" ]; then
        : "${too_old:=$version}"
        continue
      fi
      base=$(base_of "$candidate")
      if ! "$base" -c 'import ensurepip, venv' 2>/dev/null; then
        : "${no_venv:=3.$minor}"
        continue
      fi
      if [ "$minor" -le "$PYTHON_TESTED" ]; then
        python=$base
        break 2
      fi
      : "${untested:=$base}"
    done
  done
  PATH=$full_path
  python=${python:-$untested}
  [ -z "$python" ] || return 0
  if [ -n "$no_venv" ]; then
    if have apt-get; then mend="${sudo}apt-get update && ${sudo}apt-get install -y python$no_venv-venv"
    else mend=$(install_python); fi
    say "Augury needs Python's venv module, which your Python $no_venv lacks; mend it with: $mend"
    return 1
  fi
  mend=$(install_python)
  if [ -n "${PYTHON:-}" ]; then
    found="PYTHON=$PYTHON is ${too_old:-no Python that runs}"
    other=$(PYTHON="" && find_python 2>/dev/null && printf '%s' "$python") && mend="make PYTHON=$other"
  elif [ -n "$too_old" ]; then found="yours is $too_old"
  else found="there is none on your PATH"; fi
  say "Augury needs Python 3.$PYTHON_AT_LEAST or newer, and $found; mend it with: $mend"
  return 1
}

# ---- .venv ---------------------------------------------------------------------------------------

# .venv/.packages is written when all of the lock is installed: the checkout's path, then the lock itself.
# A .venv without it was interrupted, one with another path was moved; both are made anew.
packages_stamp() {
  printf '%s\n' "$root"
  cat requirements.lock
}

venv_is_sound() {
  [ "$(head -n 1 .venv/.packages 2>/dev/null)" = "$root" ] &&
    .venv/bin/python -m pip --version >/dev/null 2>&1
}

install() {
  rm -f .venv/.ready
  if ! venv_is_sound; then
    find_python || exit 1
    rm -rf .venv
    say "[1/3] making .venv with Python $(python_version "$python")"
    "$python" -m venv .venv
  fi
  if ! packages_stamp | cmp -s - .venv/.packages; then
    count=$(grep -c '^[a-zA-Z0-9]' requirements.lock)
    say "[2/3] installing the $count packages of requirements.lock (the only step that needs the network)"
    rm -f .venv/.packages
    if ! .venv/bin/python tools/install.py; then
      say "The packages of requirements.lock could not be installed (see above); once the network is back, run the same make again."
      exit 1
    fi
    packages_stamp >.venv/.packages.new
    mv .venv/.packages.new .venv/.packages
  fi
  say "[3/3] installing augury from src/"
  .venv/bin/python -m pip install --quiet --no-input --no-index --no-deps --no-build-isolation -e .
  # pip compiles what it installs, and an editable install is only a path; the first command need not wait for it.
  .venv/bin/python -m compileall -q src
  printf '%s\n' "$root" >.venv/.ready.new
  mv .venv/.ready.new .venv/.ready
}

check_machine() {
  missing=0
  check_java || missing=1
  [ "$(cat .venv/.ready 2>/dev/null)" = "$root" ] && [ -x .venv/bin/python ] || find_python || missing=1
  return $missing
}

case ${1:-install} in
  install)
    check_machine || exit 1
    install
    ;;
  machine)
    check_machine || exit 1
    ;;
  python)
    find_python || exit 1
    printf '%s\n' "$python"
    ;;
  *)
    say "usage: tools/setup.sh [install|machine|python]"
    exit 2
    ;;
esac
