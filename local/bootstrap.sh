#!/usr/bin/env bash
# Builds .venv from the locked requirements: uv, then everything, then torch (a CPU build where that is enough and can be had).
# Safe to run again: does nothing when the requirement files have not changed. Prints one line per step.
# With --with-programs the local cluster's Kubernetes is compiled meanwhile, which needs nothing of the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv
stamp=$venv/.requirements
say() { printf '\033[2m» %s\033[0m\n' "$*" >&2; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
  echo "Cotenant needs Python 3.11 or newer; '$python' is $("$python" -V 2>&1 || echo missing). Set PYTHON=/path/to/python3.11." >&2
  exit 1
}
want=$(cat requirements/*.txt pyproject.toml local/pyproject.toml "$0" | sha256sum | cut -d' ' -f1)-$("$python" -V)
# An environment that another machine or an interrupted run left behind is made anew.
if [ -f $stamp ] && [ "$(cat $stamp)" = "$want" ] && "$venv/bin/python" -c 'import cotenant, cotenant_local, pydantic' 2>/dev/null; then exit 0; fi

# A machine behind a proxy of its own trusts what its system trusts; a bare one has nothing but what uv carries.
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
  if [ -s $bundle ]; then export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1}; fi
done

if ! command -v uv >/dev/null; then
  tool=${XDG_CACHE_HOME:-$HOME/.cache}/cotenant/uv
  if [ ! -x "$tool/bin/uv" ]; then
    say "installing uv into $tool"
    "$python" -m venv "$tool" 2>/dev/null || {
      echo "This Python cannot make virtual environments. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2
      exit 1
    }
    "$tool/bin/pip" install -q --disable-pip-version-check "$(grep -o '^uv==[0-9.]*' requirements/dev.txt)"
  fi
  PATH=$tool/bin:$PATH
fi
programs=
trap '[ -z "$programs" ] || kill "$programs" 2>/dev/null || true' EXIT
if [ "${1:-}" = --with-programs ]; then
  PYTHONPATH=operator:local "$python" -m cotenant_local.programs &
  programs=$!
fi
say "building the Python environment in $venv"
# Compiled once here: pods run as a user who may not write it, and would compile torch at every start.
export UV_COMPILE_BYTECODE=1
uv venv -q --clear --python "$python" $venv
export VIRTUAL_ENV=$PWD/$venv
uv pip install -q --require-hashes -r requirements/dev.txt
torch=$(grep -o '^torch==[0-9.]*' requirements/torch.txt)
cpu=https://download.pytorch.org/whl/cpu
if [ ! -e /dev/nvidiactl ] && curl -fsI -m 5 "$cpu/torch/" >/dev/null 2>&1; then
  say "installing the CPU build of $torch"
  uv pip install -q --index-url "$cpu" "$torch"
else
  say "installing $torch"
  uv pip install -q --require-hashes -r requirements/torch.txt
fi
uv pip install -q --no-deps -e . -e ./local
# As in the worker's image, which this environment stands for on the local cluster.
cp worker/cotenant_hook.pth "$venv"/lib/python3*/site-packages/
echo "$want" > $stamp
say "environment ready"
if [ -n "$programs" ]; then
  wait "$programs" && programs=
fi
