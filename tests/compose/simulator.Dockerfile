# For the tests: the simulator in the place of vLLM, under the same PID 1.
ARG LOADGEN_IMAGE
ARG PYTHON_BASE=python:3.11-slim-bookworm

FROM ${PYTHON_BASE} AS built
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
COPY requirements/harness.txt /tmp/harness.txt
RUN grep -E '^(starlette|uvicorn|anyio|idna|h11|click|typing_extensions)==' /tmp/harness.txt > /tmp/pins.txt \
 && python3 -m venv /tmp/venv \
 && /tmp/venv/bin/pip install --no-cache-dir --no-deps --target /opt/simulator -r /tmp/pins.txt

FROM ${LOADGEN_IMAGE}
COPY --from=built /opt/simulator /opt/simulator
ENV PYTHONPATH=/opt/specgauge:/opt/simulator
ENTRYPOINT ["python3", "-m", "specgauge.serve.container"]
