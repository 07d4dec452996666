"""Rates, computed from the counters of kubelets."""

from cotenant_local.metrics.rates import Sample, UsageRate, between, parse

LOOK = """\
# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="main",namespace="default",pod="web"} 1.5 1700000000000
container_memory_working_set_bytes{container="main",namespace="default",pod="web"} 2.097152e+06 1700000000000
container_cpu_usage_seconds_total{container="half",namespace="default",pod="web"} 1 1700000000000
container_start_time_seconds{container="main",namespace="default",pod="web"} 1.7e+09
node_cpu_usage_seconds_total 100.25 1700000000500
node_memory_working_set_bytes 1.073741824e+09 1700000000500
resource_scrape_error 0
"""
MAIN = ("default", "web", "main")


def test_a_look_has_the_node_and_its_containers_but_nothing_that_is_half_known() -> None:
    assert parse(LOOK) == {MAIN: Sample(1.5, 2 << 20, 1.7e9), (): Sample(100.25, 1 << 30, 1.7e9 + 0.5)}


def test_use_is_the_difference_over_the_time_between_two_looks() -> None:
    earlier = {MAIN: Sample(1.5, 7, 100.0), (): Sample(9.0, 7, 100.0), ("gone",): Sample(1, 1, 100)}
    later = {MAIN: Sample(2.0, 9, 110.0), (): Sample(3.0, 9, 110.0), ("new",): Sample(1, 1, 110)}
    assert between(earlier, later) == {MAIN: UsageRate(50_000_000, 9, 110.0, 10.0)}
    assert between(later, later) == {}
