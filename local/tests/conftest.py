"""What holds for every test of the local cluster that starts none. Those that start one are in `tests/live/local`."""

from hypothesis import HealthCheck, settings

# As in `tests`: the same code has the same examples, and `make explore` draws others.
GATE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("gate", GATE)
settings.register_profile("explore", GATE, derandomize=False, max_examples=1_000)
settings.load_profile("gate")
