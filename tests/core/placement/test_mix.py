"""What the placer believes will be asked for next."""

from cotenant.core.inventory import Inventory
from cotenant.core.placement.mix import MOST, PARTS, Mix
from cotenant.core.placement.shapes import Shape
from cotenant.testing import make_node

INVENTORY = Inventory.of(
    [
        make_node("a", gpus=8, gpu_class="A100", memory_mib=81_920),
        make_node("b", gpus=2, gpu_class="T4", memory_mib=16_384),
    ]
)
WHOLE = Shape(cpu_milli=8000)
HALF = Shape(whole=False, memory_milli=500, cpu_milli=4000)


def weight_of(mix: Mix, shape: Shape) -> int:
    return int(mix.weight[mix.shapes.index(shape)]) if shape in mix.shapes else 0


def test_before_anything_is_seen_the_prior_stands_in() -> None:
    mix = Mix.of([], INVENTORY)
    assert [shape.memory_milli for shape in mix.shapes if not shape.whole] == [250, 333, 500]
    assert sum(shape.whole for shape in mix.shapes) == 1


def test_the_mix_converges_to_what_is_seen_and_the_prior_fades() -> None:
    errors = []
    for seen in (10, 100, 10_000):
        mix = Mix.of([(WHOLE, 0.75 * seen), (HALF, 0.25 * seen)], INVENTORY)
        errors.append(abs(weight_of(mix, WHOLE) - 3 * PARTS // 4) + abs(weight_of(mix, HALF) - PARTS // 4))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < PARTS // 100
    assert Mix.of([(WHOLE, 7500.0), (HALF, 2500.0)], INVENTORY).shapes == (WHOLE, HALF)


def test_the_order_of_demands_carries_no_meaning() -> None:
    demands = [(WHOLE, 3.0), (HALF, 2.0), (Shape(count=4, cpu_milli=1), 2.0)]
    one, other = Mix.of(demands, INVENTORY), Mix.of(demands[::-1], INVENTORY)
    assert one.shapes == other.shapes
    assert one.weight.tolist() == other.weight.tolist()


def test_what_no_gpu_here_may_serve_teaches_nothing() -> None:
    unknown = Shape(classes=("H100",))
    assert unknown not in Mix.of([(unknown, 1000.0), (WHOLE, 1.0)], INVENTORY).shapes


def test_a_long_tail_is_cut() -> None:
    tail = [(Shape(cpu_milli=cpu), 1.0) for cpu in range(1000)]
    assert len(Mix.of(tail, INVENTORY).shapes) <= MOST


def test_absolute_memory_is_a_different_size_on_each_kind() -> None:
    mix = Mix.of([(Shape(whole=False, memory_mib=8192, compute_milli=300), 1000.0)], INVENTORY)
    assert mix.memory[:, 0].tolist() == [100, 500]
    assert mix.compute[:, 0].tolist() == [300, 300]
    assert mix.size.tolist()[0] == 300
    assert not mix.even
