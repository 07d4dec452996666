# The three images: docker build --target operator|agent|worker .   (or buildah, or podman). `make test-images` builds and tries them.
# BASE is a Debian or Ubuntu with Python 3.11 or 3.12, with its venv and its headers (Python.h). Only the worker carries pip.
# From 3.13 on, kopf and urllib3 refuse the certificates of EKS, of MicroK8s and of older clusters of GKE.
ARG BASE=docker.io/library/python:3.12-slim

# pip and the wheel's builder, locked; they stay behind in these stages.
FROM ${BASE} AS builder
COPY requirements/build.txt /requirements/
RUN python3 -m venv /build && /build/bin/pip install --no-cache-dir --require-hashes -r /requirements/build.txt

# Our own code and nothing else of the environment: in every image it is a layer above the packages, so that a node that
# has the last release fetches a few megabytes of the next one.
FROM builder AS code
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
COPY worker worker
RUN /build/bin/hatchling build -t wheel -d /dist \
    && python3 -m venv --without-pip /opt/cotenant \
    && /build/bin/pip --python /opt/cotenant install --no-cache-dir --no-index --no-deps /dist/*.whl \
    && cd /opt/cotenant && rm -rf pyvenv.cfg include lib64 bin/python* bin/[Aa]ctivate*

# For run scripts that set PYTHONPATH anew. In no wheel: it would run at the start of every Python beside it.
FROM code AS worker-code
RUN cp worker/cotenant_hook.py worker/cotenant_hook.pth /opt/cotenant/lib/python3*/site-packages/

# What all three have: the environment on PATH, and a user that owns nothing. The root file system is never written to.
FROM ${BASE} AS base
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.source="https://github.com/cotenant/cotenant" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# With the folders of root's programs: dpkg installs nothing without them, here and in images that are built on these.
ENV PATH=/opt/cotenant/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp
# With a name: run scripts ask whoami, and Hadoop's login, which Spark uses, fails without one.
RUN echo cotenant:x:65532:65532::/tmp:/bin/sh >> /etc/passwd && echo cotenant:x:65532: >> /etc/group
USER 65532:65532

FROM builder AS operator-packages
COPY requirements/operator.txt /requirements/
RUN python3 -m venv --without-pip /opt/cotenant \
    && /build/bin/pip --python /opt/cotenant install --no-cache-dir --require-hashes -r /requirements/operator.txt

FROM base AS operator
LABEL org.opencontainers.image.title="cotenant-operator"
COPY --from=operator-packages /opt/cotenant /opt/cotenant
COPY --from=code /opt/cotenant /opt/cotenant
ENTRYPOINT ["python", "-m", "cotenant"]
CMD ["operator"]

FROM builder AS agent-packages
COPY requirements/agent.txt /requirements/
RUN python3 -m venv --without-pip /opt/cotenant \
    && /build/bin/pip --python /opt/cotenant install --no-cache-dir --require-hashes -r /requirements/agent.txt

FROM base AS agent
LABEL org.opencontainers.image.title="cotenant-agent"
COPY --from=agent-packages /opt/cotenant /opt/cotenant
COPY --from=code /opt/cotenant /opt/cotenant
ENTRYPOINT ["python", "-m", "cotenant_agent"]

# Tenants install packages: into an image of their own, as root, or in a pod, where pip finds this environment read-only and
# installs for the user, below /tmp. A virtual environment looks there only if it looks at the system's packages too.
FROM builder AS worker-packages
COPY requirements/worker.txt /requirements/
RUN python3 -m venv /opt/cotenant \
    && /build/bin/pip --python /opt/cotenant install --no-cache-dir --require-hashes -r /requirements/worker.txt \
    && sed -i 's/^include-system-site-packages = .*/include-system-site-packages = true/' /opt/cotenant/pyvenv.cfg

FROM base AS worker
LABEL org.opencontainers.image.title="cotenant-worker"
ENV PATH=${PATH}:/tmp/.local/bin
# torch.compile and Triton's kernels are built where they run: Inductor needs g++, Triton's launcher gcc, both Python.h.
USER 0:0
RUN command -v g++ || { apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*; }
RUN test -f "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" \
    || { echo "BASE has no Python.h for its python3: torch.compile would fail in every job" >&2; exit 1; }
USER 65532:65532
COPY --from=worker-packages /opt/cotenant /opt/cotenant
COPY --from=worker-code /opt/cotenant /opt/cotenant
WORKDIR /workspace
ENTRYPOINT ["python", "-P", "-m", "cotenant_worker"]
