"""Threads that use models, choose backends and drop constants at once give what each would give alone."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from contextlib import ExitStack

import torch
from torch import Tensor

from fourierscale.functional.constants import clear_constants
from fourierscale.kernels import Backend, backend, get_backend
from fourierscale.testing import relative_error
from tests.attack import exactness
from tests.attack.exactness import BACKENDS, DEVICE
from tests.attack.frame import BrokenError, Case, Part
from tests.attack.models import draw_classifier

LONGEST = 60.0  # seconds of a case
ROUNDING = 1e-7  # of random nets in float32, some of which magnify it; a wrong constant or backend is 1e-2 or more off


class Threads(Part):
    """Some threads with a model each, or one for all, in nested choices of a backend, while constants are dropped."""

    name = "threads"
    what = "threads with models and backends of their own, while constants are dropped"
    cases = 300

    def attack(self, case: Case) -> str:
        """A few threads, each with a few passes."""
        count, shared = case.whole("threads", 2, 6), case.often("one model", 0.5)
        levels = exactness.draw_levels(case, 2, closed=True)
        size = exactness.draw_size(case, levels, 2)
        models = [draw_classifier(case, 1, levels, "circular", True) for _ in range(1 if shared else count)]
        for model in models:
            exactness.randomise(model.to(DEVICE).eval())
        work = []
        for number in range(count):
            names = [case.random.choice(BACKENDS) for _ in range(case.random.randint(1, 4))]
            x = torch.randn(1, 1, *size, device=DEVICE)
            work.append((models[number % len(models)], x, names, case.random.random() < 0.5))
        case.note("backends", [names for _, _, names, _ in work])
        before = get_backend()
        with torch.no_grad():
            alone = [copy.deepcopy(model).double()(x.double()) for model, x, *_ in work]
        clearing = case.often("clearing", 0.5)
        found = run([_passes(*given) for given in work], clear_constants if clearing else None)
        for number, (results, expected) in enumerate(zip(found, alone, strict=True)):
            for result in results:
                error = relative_error(result, expected)
                if not error <= ROUNDING:
                    raise BrokenError(f"thread {number} gives another answer than alone: {error:.1e}")
        if get_backend() != before:
            raise BrokenError(f"the backend is {get_backend()} afterwards, it was {before}")
        return "clearing" if clearing else "backends"


def _passes(model: torch.nn.Module, x: Tensor, names: list[Backend], grad: bool) -> Callable[[], list[Tensor]]:
    """A pass in every depth of nested choices of a backend."""

    def passes() -> list[Tensor]:
        found = []
        with torch.set_grad_enabled(grad), ExitStack() as stack:
            for name in names:
                stack.enter_context(backend(name))
                found.append(model(x).detach())
                if get_backend() != name:
                    raise BrokenError(f"another thread's backend, {get_backend()}, where {name} was chosen")
        return found

    return passes


def run(works: list[Callable[[], list[Tensor]]], beside: Callable[[], None] | None) -> list[list[Tensor]]:
    """What works give that run at once; ``beside`` is called all the while."""
    gate = threading.Barrier(len(works))
    found: list[list[Tensor]] = [[] for _ in works]
    errors: list[Exception] = []

    def one(place: int) -> None:
        gate.wait()
        try:
            found[place] = works[place]()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(place,), daemon=True) for place in range(len(works))]
    for thread in threads:
        thread.start()
    while beside is not None and any(thread.is_alive() for thread in threads):
        beside()
        threads[0].join(0.0005)
    for thread in threads:
        thread.join(LONGEST)
    if any(thread.is_alive() for thread in threads):
        raise BrokenError(f"threads still run after {LONGEST:.0f} s")
    if errors:
        raise errors[0]
    return found
