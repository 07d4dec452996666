#!/usr/bin/env bash
# Resolves the requirement files: versions and hashes, no download addresses. torch stands alone, because a machine without
# an NVIDIA GPU takes a build of it from another index.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() { uv pip compile -q --universal --generate-hashes --no-annotate --no-header --python-version 3.11 "$@"; }
# `pip install cotenant`: the command and the SDK. Nothing is installed from this file; a test holds both to its packages.
compile pyproject.toml -o requirements/client.txt
# The operator's image serves the dashboard too.
compile pyproject.toml --extra operator --extra dashboard --extra sweeps -o requirements/operator.txt
compile pyproject.toml --extra agent -o requirements/agent.txt
compile pyproject.toml --extra mcp -o requirements/mcp.txt
compile pyproject.toml local/pyproject.toml --all-extras --group dev --no-emit-package cotenant --no-emit-package cotenant-local -o /tmp/all.txt
# A server of S3 for the tests, which needs other versions than the operator.
printf 'moto[s3]\nflask\nflask-cors\n' | compile - -o requirements/s3-server.txt
# The site of the pages (mkdocs with the theme material), in an environment of its own that nothing else waits for.
echo 'mkdocs-material' | compile - -o docs/requirements.txt
# What builds the wheel inside the images.
echo 'hatchling' | compile - -o requirements/build.txt
# What only torch brings, torch included.
compile pyproject.toml --extra worker -o requirements/worker.txt
echo 'torch' | compile --constraint requirements/worker.txt - -o requirements/torch.txt
python3 - <<'PYTHON'
import re, pathlib
def blocks(path):
    text = pathlib.Path(path).read_text()
    return [(re.match(r"[A-Za-z0-9._-]+", b).group().lower(), b) for b in re.split(r"\n(?=[A-Za-z])", text.strip())]
everything, torch = blocks("/tmp/all.txt"), blocks("requirements/torch.txt")
alone = {n for n, _ in torch if n == "torch" or n == "triton" or n.startswith(("nvidia-", "cuda-")) and n != "nvidia-ml-py"}
pathlib.Path("requirements/dev.txt").write_text("\n".join(b for n, b in sorted(everything) if n not in alone) + "\n")
pathlib.Path("requirements/torch.txt").write_text("\n".join(b for n, b in sorted(torch)) + "\n")
PYTHON
