"""What holds for every test of the local cluster that starts none. Those that start one are in `tests/live/local`."""

from hypothesis import HealthCheck, settings

# How long an example takes to draw says how busy the machine is, nothing about what is tested.
settings.register_profile("busy-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy-machine")
