"""A progress bar with the last epoch's loss and metrics: one line that is rewritten, in notebooks ours, in terminals tqdm's or ours."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Self

from .fields import Epoch
from .trackers import Tracker, going_on

CELLS = 24
REDRAW_S = 0.1
LINES_MOST = 10  # of a job, where a line cannot be redrawn


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _facts(epoch: Epoch) -> dict[str, str]:
    """Loss and metrics; of regression as they are, else fractions in per cent."""
    facts = {"loss": f"{epoch['loss']:.4g}"} if epoch.get("loss") is not None else {}
    is_number = epoch.get("metric") in ("mae", "rmse", "r2")
    for split in ("train", "valid", "test"):
        value: Any = epoch.get(f"{split}_metric")
        if value is not None:
            facts[split] = f"{value:.4g}" if is_number else _percent(value)
    return facts


class Bar:
    """Without tqdm: a line that is redrawn on a terminal, else some lines."""

    def __init__(self, name: str, n_epoch: int) -> None:
        self.name, self.n_epoch, self.last, self.shown_s, self.n_shown = name, n_epoch, "", 0.0, 0
        self.is_live = sys.stderr.isatty()

    def show(self, n_done: int, facts: dict[str, str]) -> None:
        share = n_done / self.n_epoch if self.n_epoch else 1.0
        self.last = self.line(n_done, share, facts)
        now = time.monotonic()
        if self.is_live and now - self.shown_s >= REDRAW_S:
            print(f"\r{self.last}\x1b[K", end="", file=sys.stderr, flush=True)
            self.shown_s = now
        elif not self.is_live and share * LINES_MOST >= self.n_shown + 1:
            print(self.last, file=sys.stderr, flush=True)
            self.n_shown = int(share * LINES_MOST)

    def line(self, n_done: int, share: float, facts: dict[str, str]) -> str:
        cells = "#" * int(share * CELLS)
        return f"{self.name} [{cells:.<{CELLS}}] {n_done}/{self.n_epoch}  " + "  ".join(f"{name} {value}" for name, value in facts.items())

    def close(self) -> None:
        if self.is_live and self.last:
            print(f"\r{self.last}\x1b[K", file=sys.stderr, flush=True)


class Cell(Bar):
    """In a notebook: an output that is rewritten."""

    def __init__(self, name: str, n_epoch: int, display: Any) -> None:
        super().__init__(name, n_epoch)
        self.display = display
        self.cell: Any = None

    def show(self, n_done: int, facts: dict[str, str]) -> None:
        self.last = self.line(n_done, n_done / self.n_epoch if self.n_epoch else 1.0, facts)
        if time.monotonic() - self.shown_s >= REDRAW_S:
            self._write()

    def close(self) -> None:
        if self.last:
            self._write()

    def _write(self) -> None:
        shown = {"text/plain": self.last}
        if self.cell is None:
            self.cell = self.display(shown, raw=True, display_id=True)
        else:
            self.cell.update(shown, raw=True)
        self.shown_s = time.monotonic()


def _notebook() -> Any:
    """What shows values in the notebook that this is; None: it is none."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import display, get_ipython
    return display.display if hasattr(get_ipython(), "kernel") else None


class Tqdm:
    """tqdm's bar."""

    def __init__(self, tqdm: Any, name: str, n_epoch: int) -> None:
        self.bar = tqdm(total=n_epoch, desc=name, unit="epoch")

    def show(self, n_done: int, facts: dict[str, str]) -> None:
        self.bar.set_postfix(facts, refresh=False)
        self.bar.update(n_done - self.bar.n)

    def close(self) -> None:
        self.bar.close()


def _bar(name: str, n_epoch: int) -> Bar | Tqdm:
    if (display := _notebook()) is not None:
        return Cell(name, n_epoch, display)
    try:
        from tqdm import tqdm
    except ImportError:
        return Bar(name, n_epoch)
    return Tqdm(tqdm, name, n_epoch)


class Progress:
    """What a training shows of its epochs: nothing (False), a bar (True), or what a function does with each epoch; a tracker has
    each before."""

    def __init__(self, how: bool | Callable[[Epoch], None], name: str, n_epoch: int, tracker: Tracker | None = None) -> None:
        self._calls = [call for call in (going_on(tracker.log) if tracker else None, how) if callable(call)]
        self._bar = _bar(name, n_epoch) if how is True else None
        self._facts: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, epochs: list[Epoch]) -> None:
        """Epochs that are done since the last call."""
        for epoch in epochs:
            for call in self._calls:
                call(epoch)
            self._facts |= _facts(epoch)
        if self._bar is not None and epochs:
            self._bar.show(epochs[-1]["epoch"] + 1, self._facts)
