"""`precision: fp16` for programs without loss scaling: losses are scaled, and gradients arrive unscaled.

Half precision turns small gradients into zero. So every backward pass starts with a factor (a power of two). Each
parameter's gradient is divided by the factor when it arrives, in float32, before DDP reduces it and before the program
sees it, so clipping and logging work unchanged. If a gradient overflowed, the optimizer's step finds no gradients and
changes nothing, and the factor is halved. After many good steps it is doubled. DDP has reduced the gradients by then,
so all ranks see the same overflow. (Dynamic loss scaling: Micikevicius et al., Mixed Precision Training, 2018, section
3.2.)

Loaded only if the job's precision is fp16. It does nothing until DDP's forward has run under our autocast, so a program
that scales by itself is not changed.
"""

from __future__ import annotations

INITIAL_FACTOR = 65536.0
GROW_AFTER = 2000
MIN_FACTOR = 1.0


class LossScaler:
    """Scales losses and unscales gradients by one dynamic factor per process."""

    def __init__(self, warn):
        self.factor = INITIAL_FACTOR
        self.usable = False
        """True if optimizers can skip a step (torch 2.0 and later)."""
        self.active = False
        self.skipped = 0
        self._warn = warn
        self._running = False
        self._good = 0

    def watch(self, parameters):
        """Divide the gradients that arrive at these parameters."""
        for parameter in parameters:
            if parameter.requires_grad and parameter.is_leaf and not getattr(parameter, "_cotenant_watched", False):
                parameter._cotenant_watched = True
                parameter.register_hook(self._divide)

    def _divide(self, gradient):
        return gradient / self.factor if self._running else gradient

    def scale_backward(self, autograd, torch):
        """Multiply each root's gradient in `torch.autograd.backward`, which `loss.backward()` calls."""
        original = autograd.backward

        def backward(tensors, grad_tensors=None, *args, **kwargs):
            if not self.active or self._running:
                return original(tensors, grad_tensors, *args, **kwargs)
            roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
            given = (grad_tensors,) if grad_tensors is None or isinstance(grad_tensors, torch.Tensor) else grad_tensors
            seeds = list(given) * len(roots) if grad_tensors is None else list(given)
            for index, root in enumerate(roots):
                if seeds[index] is None and root.numel() == 1:
                    seeds[index] = torch.ones_like(root)
                if seeds[index] is not None:
                    seeds[index] = seeds[index] * self.factor
            self._running = True
            try:
                return original(roots, seeds, *args, **kwargs)
            finally:
                self._running = False

        backward.__doc__ = original.__doc__
        autograd.backward = backward

    def before_step(self, optimizer, torch):
        """Drop overflowed gradients, so that the step changes nothing."""
        if not self.active:
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not parameters:
            return
        worst = [p.grad.detach().abs().max() for p in parameters if p.grad.numel()]
        if all(bool(torch.isfinite(each)) for each in _stacked(worst, torch)):
            self._good += 1
            if self._good >= GROW_AFTER:
                self.factor, self._good = self.factor * 2, 0
            return
        for parameter in parameters:
            parameter.grad = None
        self.skipped += 1
        self._good = 0
        if self.factor <= MIN_FACTOR:
            self._warn("precision fp16: gradients overflow even unscaled; use bf16 or fp32")
        self.factor = max(MIN_FACTOR, self.factor / 2)


def _stacked(values, torch):
    """One tensor for each device, so that a step waits for each device once."""
    by_device = {}
    for value in values:
        by_device.setdefault(value.device, []).append(value.float())
    return [torch.stack(each).max() for each in by_device.values()]
