# The three images: docker build --target operator|agent|worker .   (or buildah, or podman)
# BASE needs Python 3.11 or newer with venv. No image carries what only another one needs; none carries pip.
ARG BASE=docker.io/library/python:3.12-slim

# pip and the wheel's builder, locked; they stay behind in these stages.
FROM ${BASE} AS builder
COPY requirements/build.txt /requirements/
RUN python3 -m venv /build && /build/bin/pip install --no-cache-dir --require-hashes -r /requirements/build.txt

FROM builder AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
COPY worker worker
RUN /build/bin/hatchling build -t wheel -d /dist

# What all three have: the environment on PATH, and a user that owns nothing. The root file system is never written to.
FROM ${BASE} AS base
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.source="https://github.com/cotenant/cotenant" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/cotenant/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp
USER 65532:65532

# Each environment: the locked packages first, because they change least, then the wheel and nothing more.
FROM builder AS operator-environment
COPY requirements/operator.txt /requirements/
RUN python3 -m venv --without-pip /opt/cotenant \
    && /build/bin/pip --python /opt/cotenant install --no-cache-dir --require-hashes -r /requirements/operator.txt
COPY --from=wheel /dist /dist
RUN /build/bin/pip --python /opt/cotenant install --no-cache-dir --no-index --no-deps /dist/*.whl

FROM base AS operator
LABEL org.opencontainers.image.title="cotenant-operator"
COPY --from=operator-environment /opt/cotenant /opt/cotenant
ENTRYPOINT ["python", "-m", "cotenant"]
CMD ["operator"]

FROM builder AS agent-environment
COPY requirements/agent.txt /requirements/
RUN python3 -m venv --without-pip /opt/cotenant \
    && /build/bin/pip --python /opt/cotenant install --no-cache-dir --require-hashes -r /requirements/agent.txt
COPY --from=wheel /dist /dist
RUN /build/bin/pip --python /opt/cotenant install --no-cache-dir --no-index --no-deps /dist/*.whl

FROM base AS agent
LABEL org.opencontainers.image.title="cotenant-agent"
COPY --from=agent-environment /opt/cotenant /opt/cotenant
ENTRYPOINT ["python", "-m", "cotenant_agent"]

FROM builder AS worker-environment
COPY requirements/worker.txt /requirements/
RUN python3 -m venv --without-pip /opt/cotenant \
    && /build/bin/pip --python /opt/cotenant install --no-cache-dir --require-hashes -r /requirements/worker.txt
COPY --from=wheel /dist /dist
RUN /build/bin/pip --python /opt/cotenant install --no-cache-dir --no-index --no-deps /dist/*.whl
# For run scripts that set PYTHONPATH anew. In no wheel: it would run at the start of every Python beside it.
COPY worker/cotenant_hook.py worker/cotenant_hook.pth /source/
RUN cp /source/cotenant_hook.* /opt/cotenant/lib/python3*/site-packages/

FROM base AS worker
LABEL org.opencontainers.image.title="cotenant-worker"
# torch.compile and Triton's kernels are built where they run: Inductor needs g++, Triton's launcher gcc.
USER 0:0
RUN command -v g++ || { apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*; }
USER 65532:65532
COPY --from=worker-environment /opt/cotenant /opt/cotenant
WORKDIR /workspace
ENTRYPOINT ["python", "-m", "cotenant_worker"]
