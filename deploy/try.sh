#!/bin/sh
# Tries deploy/ out, by the commands that docs/operation.md gives: podman builds the image and runs it, a systemd of its own runs the unit.
# In: root on a Debian, the packages below, PyPI and Debian's packages, 8 GB at TRY, some minutes. Out: a line for each
# thing that was seen to hold; it ends at the first that does not. What it makes lies in TRY and is deleted.
#
#   deploy/try.sh              both
#   deploy/try.sh container    the image
#   deploy/try.sh service      the unit
#   deploy/try.sh commands     print the commands of the page that are run, and run nothing
#
# No registry of images is asked: the base is made of Debian's packages, with the Python that the container file names.
# Servers listen in a network of their own, where no other process of the machine is.

set -eu
LC_ALL=C
export LC_ALL

PACKAGES="podman runc netavark iptables iproute2 mmdebstrap systemd-container curl"
DEBIAN=trixie
READY_SECONDS_MAX=60
STOP_SECONDS_MAX=30
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt
URL=http://127.0.0.1:8700

root=$(cd "$(dirname "$0")/.." && pwd -P)
TRY=${TRY:-/tmp/augury-try}
page=$root/docs/operation.md
base=$(sed -n 's/^FROM \([^ ]*\).*/\1/p' "$root/deploy/Containerfile" | sort -u)

# block FILE HEADING NUMBER : a block of commands below a heading of a page
block() {
  awk -v heading="## $2" -v number="$3" '
    /^## / { below = $0 == heading }
    below && $0 == "```sh" { count++; inside = count == number; next }
    $0 == "```" { inside = 0 }
    inside' "$1" | grep . || fail "$1 has no block $3 below \"$2\""
}

# content NAME : a file that docs/server.md shows
content() {
  awk -v name="file=$1" '
    /^```/ { inside = $2 == name; next }
    inside' "$root/docs/server.md" | grep . || fail "docs/server.md has no file $1"
}

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# holds SENTENCE COMMAND... : says the sentence where the command succeeds
holds() {
  sentence=$1
  shift
  "$@" >"$TRY/told" 2>&1 || { cat "$TRY/told" >&2 && fail "not so: $sentence"; }
  printf '  %s\n' "$sentence"
}

# refused COMMAND... : the command has to fail
refused() { if "$@"; then return 1; fi; }

# same WANTED FOUND
same() { [ "$1" = "$2" ] || { printf 'wanted %s, found %s\n' "$1" "$2" && return 1; }; }

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# ---- asking --------------------------------------------------------------------------------------

# answers STATUS PATTERN PATH ARGUMENT... : the server answers so, with a text like that
answers() {
  status=$1 pattern=$2 path=$3
  shift 3
  same "$status" "$(curl -s --max-time 20 -o "$TRY/answer" -w '%{http_code}' "$@" "$URL$path")" || { cat "$TRY/answer" && return 1; }
  grep -q "$pattern" "$TRY/answer" || { cat "$TRY/answer" && return 1; }
}

# posted PATTERN ACCOUNT AMOUNT : the owner posts an order, and the answer is like that
posted() {
  answers 200 "$1" '/v1/events?wait=read' -H "Authorization: Bearer $owner" -H 'Content-Type: application/json' \
    -d "{\"event\": \"Ordered\", \"event_id\": \"order-$2\", \"account\": $2, \"amount\": $3}"
}

# in_history COUNT : as many orders are in it; one that was read is there when its tick is over
in_history() {
  answers 200 . '/v1/classes/Ordered/history?format=ndjson' -H "Authorization: Bearer $owner" || return 1
  same "$1" "$(wc -l <"$TRY/answer")"
}

# soon COMMAND... : it succeeds, if not at once then within the time in which a server has to be ready
soon() {
  asked=$(now_ms)
  until "$@"; do
    [ $(($(now_ms) - asked)) -lt $((READY_SECONDS_MAX * 1000)) ] || return 1
    sleep 0.1
  done
}

# since MOMENT : how long ago it was
since() { printf '    after %s ms\n' $(($(now_ms) - $1)); }

asked_and_acting() {
  holds "GET /health is answered to everybody" answers 200 . /health
  holds "a post without a token is 401" answers 401 . /v1/events -H 'Content-Type: application/json' -d '{"event": "Ordered"}'
  holds "a token that nobody made is 401" answers 401 . /v1/classes -H 'Authorization: Bearer aug_0_0'
  holds "what makes no sense is 422" answers 422 account '/v1/events' -H "Authorization: Bearer $owner" \
    -H 'Content-Type: application/json' -d '{"event": "Ordered", "account": "seven"}'
  holds "an order is read, its rule calls Python of the configuration" posted '"returned": {"Order": 120}' 1 100
  holds "a large order is read" posted '"returned": {"Order": null}' 2 5000
  holds "and its action carried out" soon answers 200 escalate '/v1/actions?state=delivered' -H "Authorization: Bearer $owner"
}

# ---- the container -------------------------------------------------------------------------------

# settings_for NAME LINE... : podman keeps everything in TRY, and asks of the machine no more than it gives
settings_for() {
  name=$1
  shift
  files=$(prlimit --noheadings --output HARD --nofile)
  processes=$(prlimit --noheadings --output HARD --nproc)
  [ "$processes" != unlimited ] && [ "$processes" -lt 32768 ] || processes=32768
  {
    printf '[containers]\ndefault_ulimits = ["nofile=%s:%s", "nproc=%s:%s"]\n' "$files" "$files" "$processes" "$processes"
    printf '%s\n' "$@"
    printf '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nlock_type = "file"\ntmp_dir = "%s/libpod"\n' "$TRY"
    printf '[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "%s/networks"\n' "$TRY"
  } >"$TRY/$name.conf"
  printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' "$TRY" "$TRY" >"$TRY/storage.conf"
}

make_image() {
  echo "container: a base of Debian's packages, then the image"
  settings_for build 'netns = "host"' "volumes = [$(settings_of_pip | sed 's/.*/"&:&:ro"/' | paste -sd,)]"
  settings_for run
  debian "$TRY/base.tar" python3,python3-venv,python-is-python3,ca-certificates
  export CONTAINERS_STORAGE_CONF="$TRY/storage.conf" CONTAINERS_CONF="$TRY/build.conf"
  podman import --quiet "$TRY/base.tar" "$base" >/dev/null
  holds "the base has the Python of $base" sh -c "podman run --rm $base python --version | sed 's/ /:/' | grep -qi '^${base%-slim}\.'"
  block "$page" "As a container" 1 | grep '^podman build' >"$TRY/build"
  cd "$TRY/tree"
  holds "the image is built" sh -eu "$TRY/build"
}

show_container() {
  ip link set lo up
  export CONTAINERS_STORAGE_CONF="$TRY/storage.conf" CONTAINERS_CONF="$TRY/run.conf"
  trap 'podman rm --force --time 0 --all >/dev/null 2>&1' EXIT
  trap 'exit 1' INT TERM
  cd "$TRY/tree"
  mkdir -p shop && cp program.bicepl prices.py shop/
  echo "HOOK_SECRET=whsec_none" >secrets.env

  code=0
  podman run --rm -v ./shop:/etc/augury:ro augury >"$TRY/refusal" 2>&1 || code=$?
  holds "without tokens it refuses to listen beyond this machine" grep 'without tokens' "$TRY/refusal"
  holds "and ends with 2" same 2 "$code"
  holds "nothing that was said of pip stays in it" refused podman run --rm --network none --entrypoint test augury -s /etc/pip.conf
  holds "a program is checked in it" podman run --rm --network none -v ./shop:/etc/augury:ro augury check program.bicepl

  block "$page" "As a container" 1 | grep -v '^podman build' >"$TRY/start"
  holds "the commands of the page run" sh -eu "$TRY/start"
  owner=$(grep -o '^aug_.*' "$TRY/told")
  begun=$(now_ms)
  holds "it gets ready" soon answers 200 . /ready
  since "$begun"
  holds "the probe of the image says so" podman healthcheck run augury
  asked_and_acting
  holds "process 1 has the user 10001" podman exec augury grep -qE '^Uid:\s10001\s10001\s10001\s10001$' /proc/1/status
  holds "no capability" podman exec augury grep -qE '^CapEff:\s0+$' /proc/1/status
  holds "and can get none" podman exec augury grep -qE '^NoNewPrivs:\s1$' /proc/1/status
  for place in /opt/augury/x /etc/augury/x /var/lib/x; do
    holds "it cannot write $place" refused podman exec augury touch "$place"
  done
  holds "what it says is in the log" sh -c "podman logs augury 2>&1 | grep -q 'the server listens at'"

  begun=$(now_ms)
  holds "it stops" podman stop augury
  since "$begun"
  holds "on SIGTERM, within $STOP_SECONDS_MAX s" [ $(($(now_ms) - begun)) -lt $((STOP_SECONDS_MAX * 1000)) ]
  holds "with 0" same 0 "$(podman inspect --format '{{.State.ExitCode}}' augury)"
  podman start augury >/dev/null
  holds "it gets ready again" soon answers 200 . /ready
  holds "its history is there" soon in_history 2
  holds "and goes on" posted '"absorbed": false' 3 100

  podman kill --signal KILL augury >/dev/null
  podman wait augury >/dev/null
  podman rm augury >/dev/null
  grep -v 'token add\|volume create' "$TRY/start" >"$TRY/again"
  holds "killed and removed, another is started with its volume" sh -eu "$TRY/again"
  holds "it gets ready" soon answers 200 . /ready
  holds "what was acknowledged is there" soon in_history 3
  holds "and is absorbed when it is posted again" posted '"absorbed": true' 3 100
  block "$page" "As a container" 3 >"$TRY/copy"
  holds "a copy is made while it runs, and brought out" sh -eu "$TRY/copy"
}

# ---- the service ---------------------------------------------------------------------------------

make_guest() {
  echo "service: a Debian with a systemd, then the install of the page"
  debian "$TRY/guest" python3,python3-venv,ca-certificates,systemd-sysv,dbus,sudo,curl
  cp -r "$TRY/tree" "$TRY/guest/root/augury"
  block "$page" "Install" 1 >"$TRY/guest/root/install"
  set --
  for path in $(settings_of_pip) /etc/hosts; do set -- "$@" "--bind-ro=$path"; done
  holds "it is installed as the page says" \
    guest --resolv-conf=copy-host "$@" --chdir=/root/augury --pipe sh -eu /root/install

  cat >"$TRY/guest/etc/systemd/system/try.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=HOME=/root TRY=/root
ExecStart=/bin/sh -c 'sh /root/augury/deploy/try.sh seen-service; systemctl exit \$\$?'
StandardOutput=file:/root/seen
StandardError=inherit
[Install]
WantedBy=multi-user.target
UNIT
  systemctl --quiet --root="$TRY/guest" enable try.service
}

show_service() {
  code=0
  guest --private-network --link-journal=no --boot >"$TRY/console" 2>&1 </dev/null || code=$?
  cat "$TRY/guest/root/seen" || tail -n 50 "$TRY/console" >&2
  [ "$code" = 0 ] || fail "the guest ended with $code"
}

# guest WORD... : systemd-nspawn, also where no systemd runs the machine: there in a cgroup of its own
guest() {
  set -- --quiet --register=no --directory="$TRY/guest" "$@"
  if [ -d /run/systemd/system ]; then
    systemd-nspawn "$@"
  else
    # shellcheck disable=SC2016
    unshare --mount --propagation private sh -c '
      mount -t cgroup2 none /sys/fs/cgroup && mkdir -p /sys/fs/cgroup/augury-try || exit 1
      echo $$ >/sys/fs/cgroup/augury-try/cgroup.procs
      code=0
      systemd-nspawn --keep-unit "$@" || code=$?
      echo $$ >/sys/fs/cgroup/cgroup.procs
      find /sys/fs/cgroup/augury-try -depth -type d -exec rmdir {} +
      exit $code' sh "$@"
  fi
}

# of SERVICE PROPERTY
of() { systemctl show --value --property "$2" "$1"; }

# Runs in the guest, as root, when its systemd has reached multi-user.target.
seen_service() {
  cd /root/augury
  systemctl --version | sed -n '1s/^/  under /p'
  block "$page" "As a service" 1 >"$TRY/lines"
  holds "the user, the folders and the unit are made, the program is checked" sh -eu "$TRY/lines"
  install -m 0644 prices.py /etc/augury/
  block "$page" "Tokens" 1 >"$TRY/lines"
  holds "tokens are made, listed and revoked" sh -eu "$TRY/lines"
  owner=$(grep -o '^aug_.*' "$TRY/told" | tail -n 1)
  block "$page" "As a service" 2 >"$TRY/lines"
  begun=$(now_ms)
  holds "it is enabled and started" sh -eu "$TRY/lines"
  since "$begun"
  holds "systemctl came back when it was ready" answers 200 . /ready
  holds "it starts with the machine" systemctl is-enabled augury
  asked_and_acting
  in_its_bounds
  after_a_kill
  stopped_and_restored
  a_wrong_program
}

in_its_bounds() {
  main=$(of augury MainPID)
  holds "the user of its process is augury" same augury "$(stat -c %U "/proc/$main")"
  holds "it has no capability" grep -qE '^CapEff:\s0+$' "/proc/$main/status"
  holds "it can get none" grep -qE '^NoNewPrivs:\s1$' "/proc/$main/status"
  holds "its system calls are filtered" grep -qE '^Seccomp:\s2$' "/proc/$main/status"
  for place in /etc/augury/x /opt/augury/x /usr/x /var/x /var/backups/augury/x; do
    holds "$place is read-only for it, even for root" refused nsenter --target "$main" --mount touch "$place"
  done
  holds "homes are out of its sight" refused nsenter --target "$main" --mount ls /root/augury
  holds "its store is there" test -s /var/lib/augury/store.db
  holds "nobody else reads its store" same 700 "$(stat -c %a /var/lib/augury)"
  holds "what it compiled is in its cache" sh -c 'find /var/cache/augury -type f | grep -q .'
  holds "what it says is in the journal" sh -c "journalctl --sync && journalctl -u augury -o cat | grep -q 'the server listens at'"
}

after_a_kill() {
  holds "an order before the kill is acknowledged" posted '"absorbed": false' 3 100
  begun=$(now_ms)
  kill -9 "$(of augury MainPID)"
  sleep 0.5
  holds "it is ready again" soon answers 200 . /ready
  since "$begun"
  holds "not before the $(of augury RestartUSec) of RestartSec" [ $(($(now_ms) - begun)) -ge 2000 ]
  holds "it was started again once, by systemd" same 1 "$(of augury NRestarts)"
  holds "its history is there" soon in_history 3
  holds "what was acknowledged is absorbed when it is posted again" posted '"absorbed": true' 3 100
}

stopped_and_restored() {
  begun=$(now_ms)
  holds "systemctl stop stops it" systemctl stop augury
  since "$begun"
  holds "cleanly" same "success 0 dead" "$(of augury Result) $(of augury ExecMainStatus) $(of augury SubState)"
  holds "and it starts" systemctl start augury
  block "$page" "Copies" 1 >"$TRY/lines"
  holds "a copy is made while it runs" sh -eu "$TRY/lines"
  holds "an order after the copy" posted '"absorbed": false' 4 100
  holds "is in the history" soon in_history 4
  block "$page" "Copies" 2 >"$TRY/lines"
  holds "the copy is put back" sh -eu "$TRY/lines"
  holds "the history is that of the copy" soon in_history 3
  holds "what came after it can be posted again" posted '"absorbed": false' 4 100
  block "$page" "A new release" 1 | grep -v 'pip install' >"$TRY/lines"
  holds "the steps of a new release, but for pip: nothing is reached from here" sh -eu "$TRY/lines"
  holds "the history is there" soon in_history 4
}

a_wrong_program() {
  echo "SET CHRONON nonsense;" >/etc/augury/program.bicepl
  systemctl reset-failed augury # the starts so far count no more
  journalctl --sync
  from=$(date '+%F %T')
  holds "systemctl fails for a wrong program" refused systemctl restart augury
  begun=$(now_ms)
  until [ "$(of augury SubState)" = failed ]; do
    [ $(($(now_ms) - begun)) -lt 300000 ] || fail "it is tried for ever: $(systemctl status augury)"
    sleep 1
  done
  journalctl --sync
  holds "it is tried ten times, and the journal says each time where it is wrong" \
    same 10 "$(journalctl -u augury --since "$from" -o cat | grep -c 'program.bicepl:1')"
  echo "    within $((($(now_ms) - begun) / 1000)) s"
  install -m 0644 program.bicepl /etc/augury/
  systemctl reset-failed augury
  holds "with the right one it starts" systemctl start augury
  holds "the history is there" soon in_history 4
}

# ---- both ----------------------------------------------------------------------------------------

# debian TARGET PACKAGES : a small Debian with these packages, as a folder or a file of tar
debian() {
  mmdebstrap --quiet --variant=minbase --include="$2" --aptopt='Acquire::Languages "none"' "$DEBIAN" "$1" </dev/null
}

# What this machine's pip needs to reach PyPI, where it needs anything.
settings_of_pip() {
  for path in /etc/pip.conf "$CERTIFICATES"; do if [ -f "$path" ]; then echo "$path"; fi; done
}

require() {
  [ "$(id -u)" = 0 ] || fail "it makes file systems and namespaces: run it as root"
  missing=""
  for tool in podman runc iptables ip mmdebstrap systemd-nspawn curl; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
  done
  [ -z "$missing" ] || fail "missing:$missing; mend it with: apt-get update && apt-get install -y --no-install-recommends $PACKAGES"
  [ ! -e "$TRY" ] || fail "$TRY is there: delete it, or name another place by TRY"
}

make_tree() {
  mkdir -p "$TRY/tree"
  trap 'clean' EXIT
  trap 'exit 1' INT TERM
  for name in deploy docs src .dockerignore pyproject.toml requirements.lock README.md LICENSE; do
    cp -r "$root/$name" "$TRY/tree/"
  done
  content shop.bicepl >"$TRY/tree/program.bicepl"
  content prices.py >"$TRY/tree/prices.py"
}

clean() {
  umount --recursive "$TRY/images/overlay" 2>/dev/null || true
  for folder in /sys/fs/cgroup/*/libpod_parent; do
    find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  [ -n "${KEEP:-}" ] || rm -rf "$TRY"
}

container() {
  make_image
  unshare --net --mount --propagation private sh "$root/deploy/try.sh" seen-container
}

service() {
  make_guest
  show_service
}

what=${1:-both}
case $what in
  both | container | service)
    require
    make_tree
    [ "$what" = service ] || container
    [ "$what" = container ] || service
    echo "all of it holds"
    ;;
  commands)
    for where in "Install:1" "As a service:1" "Tokens:1" "As a service:2" "Copies:1" "Copies:2" "A new release:1" \
      "As a container:1" "As a container:3"; do
      block "$page" "${where%:*}" "${where#*:}"
    done
    content shop.bicepl >/dev/null
    content prices.py >/dev/null
    ;;
  seen-container) show_container ;;
  seen-service) seen_service ;;
  *) fail "say container, service or commands, or nothing for both" ;;
esac
