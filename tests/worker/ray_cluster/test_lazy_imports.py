"""What of Ray is imported late, and is there when somebody asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_ray_is_imported_without_what_a_job_never_uses_and_has_it_when_it_asks() -> None:
    program = (
        "import sys; from cotenant_worker.ray_cluster import lazy_imports; lazy_imports.install_lazy_imports();"
        "import ray;"
        "import ray._private.services, ray._private.state, ray._private.runtime_env.plugin_schema_manager as schemas;"
        "assert set(lazy_imports.LAZY_PACKAGES) <= set(sys.modules);"
        "assert not {'urllib3', 'jsonschema.validators'} & set(sys.modules);"
        "schemas.jsonschema.validate(1, {'type': 'integer'});"
        "from requests.adapters import HTTPAdapter; import requests, types;"
        "assert requests.Session().adapters['http://'].__class__ is HTTPAdapter;"
        "assert type(requests) is types.ModuleType and requests.__spec__.loader is requests.__loader__;"
        "assert requests.adapters.__spec__.origin and requests.adapters.HTTPAdapter is HTTPAdapter"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_module_that_is_not_installed_is_missed_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    from cotenant_worker.ray_cluster import lazy_imports

    monkeypatch.setattr(lazy_imports, "LAZY_PACKAGES", ("a_module_that_nobody_has",))
    assert lazy_imports.LazyFinder().find_spec("a_module_that_nobody_has") is None
