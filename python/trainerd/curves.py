"""Curves of trainings as figures of matplotlib: one job's loss, metrics and time by phase, or several jobs over each other, means in bands.

Knows neither daemons nor folders: `results` and `plot` read the numbers.
"""
from __future__ import annotations

import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import MissingInput

if TYPE_CHECKING:
    from .results import Result

KEYS = ("loss", "valid_loss", "train_metric", "valid_metric", "test_metric", "epoch_s", "compute_s", "wait_s", "bytes_received", "bytes_evaluate")
FALLING = ("rmse", "mae")  # metrics of which less is better
NUMBERS = (*FALLING, "r2")  # metrics that are no fractions
AXES = {"epoch": [(1.0, "epoch")],
        "bytes": [(1.0, "bytes received in training"), (1e3, "kB received in training"), (1e6, "MB received in training"),
                  (1e9, "GB received in training"), (1e12, "TB received in training")],
        "time": [(1.0, "seconds of epochs"), (60.0, "minutes of epochs"), (3600.0, "hours of epochs")]}
POINTS_MOST = 800  # of a curve
BARS_MOST = 200
LETTERS_MOST = 92  # of a title or a name, as wide as the figure


def number_of(value: Any) -> float:
    """NaN where it is no number, or not finite."""
    try:
        number = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


class Curves:
    """The numbers of a job's epochs: `at`, where each lies on the horizontal axis, and `values` by KEYS, NaN where one is not known. Of a mean also
    what lies one deviation below and above it."""

    def __init__(self, name: str = "", metric: str = "", epochs: Iterable[Mapping[str, Any]] = ()) -> None:
        self.name, self.metric, self.axis = name, metric, "epoch"
        self.at: list[float] = []
        self.values: dict[str, list[float]] = {key: [] for key in KEYS}
        self.low: dict[str, list[float]] = {}
        self.high: dict[str, list[float]] = {}
        for epoch in epochs:
            self.add(epoch)

    def add(self, epoch: Mapping[str, Any]) -> None:
        """A line of metrics.jsonl, which numbers epochs from 0; logs, tables and figures do from 1. Epochs of a resumed attempt replace those behind
        the checkpoint."""
        at = number_of(epoch.get("epoch")) + 1
        if math.isnan(at):
            return
        while self.at and self.at[-1] >= at:
            for column in (self.at, *self.values.values()):
                column.pop()
        self.at.append(at)
        for key, column in self.values.items():
            column.append(number_of(epoch.get(key)))
        self.metric = self.metric or str(epoch.get("metric") or "")

    def best(self) -> int | None:
        """The first place of the best validation metric."""
        valid = self.values["valid_metric"]
        known = finite(valid)
        return valid.index((min if self.metric in FALLING else max)(known)) if known else None

    def lay(self, axis: str) -> None:
        """Lay the epochs, when all are there, along another axis: "bytes" that training received up to the end of each, or "time", the seconds of
        epochs."""
        def known(key: str) -> list[float]:
            return [value if math.isfinite(value) else 0.0 for value in self.values[key]]
        if axis == "bytes":
            self.at = list(accumulate(all - part for all, part in zip(known("bytes_received"), known("bytes_evaluate"), strict=True)))
        elif axis == "time":
            self.at = list(accumulate(known("epoch_s")))
        self.axis = axis


def mean_of(runs: Sequence[Curves], name: str = "") -> Curves:
    """Runs' mean at each epoch that one of them has, over those that have the value, and one sample standard deviation below and above it: NaN of
    fewer than two. A fraction stays one. Lay the mean, not the runs, along an axis."""
    mean = Curves(name, next((run.metric for run in runs if run.metric), ""))
    mean.at = sorted({at for run in runs for at in run.at})
    places = [{at: place for place, at in enumerate(run.at)} for run in runs]
    for key in KEYS:
        mean.low[key], mean.high[key] = [], []
        ends = (0.0, 1.0) if key.endswith("_metric") and mean.metric not in NUMBERS else (-math.inf, math.inf)
        for at in mean.at:
            values = finite(run.values[key][place[at]] for run, place in zip(runs, places, strict=True) if at in place)
            middle = statistics.fmean(values) if values else math.nan
            squares = math.fsum((value - middle) ** 2 for value in values)
            deviation = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else math.nan
            mean.values[key].append(middle)
            mean.low[key].append(max(middle - deviation, ends[0]))
            mean.high[key].append(min(middle + deviation, ends[1]))
    return mean


# --- texts ---

def percent_or_number(metric: str, value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}" if metric in NUMBERS or abs(value) > 1 else f"{100 * value:.2f} %"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most - 1] + "…"


def _shown(text: str) -> str:
    """As matplotlib and SVG take it: without controls, and a dollar begins no formula."""
    printable = "".join(letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode() for letter in text)
    return cut(printable, LETTERS_MOST).replace("$", r"\$")


# --- the horizontal axis ---

class _Axis(NamedTuple):
    begin: float
    end: float
    size: float  # of its unit
    name: str
    is_log: bool

    def place(self, at: float) -> float:
        return math.log(at) if self.is_log else at


def _axis_of(jobs: Sequence[Curves]) -> _Axis:
    """From the first epoch of any job to the last of any; of several jobs over bytes logarithmic."""
    kind = jobs[0].axis
    all_at = [at for job in jobs for at in job.at if at > 0]
    least, most = min(all_at, default=0.0), max(all_at, default=0.0)
    is_log = kind == "bytes" and len(jobs) > 1 and least < most
    begin = least if is_log or kind == "epoch" else 0.0
    size, name = [unit for unit in AXES[kind] if unit[0] == 1 or most >= 2 * unit[0]][-1]
    return _Axis(begin, most if most > begin else begin + 1, size, name, is_log)


def _points(job: Curves, key: str, axis: _Axis) -> list[int]:
    """The places of a curve's values, of more than the figure is wide some, and always the last."""
    places = [place for place, value in enumerate(job.values[key]) if math.isfinite(value) and not (axis.is_log and job.at[place] <= 0)]
    apart = (axis.place(axis.end) - axis.place(axis.begin)) / POINTS_MOST
    points: list[int] = []
    for place in places:
        if not points or place == places[-1] or axis.place(job.at[place]) >= axis.place(job.at[points[-1]]) + apart:
            points.append(place)
    return points


# --- panels ---

def _curve(panel: Any, job: Curves, key: str, axis: _Axis, **how: Any) -> None:
    """A curve, and of a mean its band. One value is a dot."""
    points = _points(job, key, axis)
    if not points:
        return
    x = [job.at[place] / axis.size for place in points]
    line, = panel.plot(x, [job.values[key][place] for place in points], marker="." if len(points) == 1 else None, **how)
    low, high = ([of[key][place] for place in points] if of else [] for of in (job.low, job.high))
    if len(finite(low)) > 1:
        panel.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def _name(panel: Any, name: str, is_fraction: bool) -> None:
    from matplotlib.ticker import PercentFormatter

    panel.set_ylabel(_shown(name))
    if is_fraction:
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    if not panel.lines:
        _empty(panel)


def _empty(panel: Any) -> None:
    panel.text(0.5, 0.5, "no values yet", transform=panel.transAxes, ha="center", va="center")


def _phases(panel: Any, job: Curves, axis: _Axis) -> None:
    """Seconds of an epoch: compute, waiting and the rest, each the largest of any worker's. Of many epochs one bar is a mean; those far above the
    others, as a first epoch is, are cut."""
    panel.set_ylabel("seconds per epoch")
    if not finite(job.values["epoch_s"]):
        return _empty(panel)
    n = len(job.at)
    n_bar = min(n, BARS_MOST)
    bars = [range(bar * n // n_bar, (bar + 1) * n // n_bar) for bar in range(n_bar)]
    def means(key: str) -> list[float]:
        return [statistics.fmean(finite(job.values[key][place] for place in bar) or [0.0]) for bar in bars]
    whole = means("epoch_s")
    compute = [min(pair) for pair in zip(whole, means("compute_s"), strict=True)]
    wait = [min(all - part, waiting) for all, part, waiting in zip(whole, compute, means("wait_s"), strict=True)]
    rest = [all - part - waiting for all, part, waiting in zip(whole, compute, wait, strict=True)]
    half = 0.5 if job.axis == "epoch" else 0.0  # a bar of epochs is around them
    ends = [axis.begin - half, *(job.at[bar[-1]] + half for bar in bars)]
    panel.stackplot([end / axis.size for end in ends], *([column[0], *column] for column in (compute, wait, rest)), step="pre",
                    labels=("compute", "waiting", "other"), colors=("#4c78a8", "#f58518", "#bbbbbb"))
    top = min(max(whole), 1.5 * sorted(whole)[n_bar * 95 // 100]) or 1.0
    panel.set_ylim(0, 1.05 * top)
    if max(whole) > 1.05 * top:
        panel.set_ylabel(f"seconds per epoch\n(the highest is {max(whole):.4g})")
    panel.legend()


def _one(panels: Sequence[Any], job: Curves, axis: _Axis) -> None:
    """Loss and metrics by split, and time by phase if there is a panel for it."""
    best = job.best()
    for panel, name, is_fraction, keys in ((panels[0], "loss", False, ("loss", "valid_loss")),
                                           (panels[1], job.metric or "metric", job.metric not in NUMBERS, ("train_metric", "valid_metric", "test_metric"))):
        for key in keys:
            _curve(panel, job, key, axis, label=key.removesuffix("_metric").replace("_", " "))
        _name(panel, name, is_fraction)
        if best is not None:
            panel.axvline(job.at[best] / axis.size, color="grey", linewidth=0.8, linestyle="--", label="best valid")
        if panel.lines:
            panel.legend()
    if len(panels) > 2:
        _phases(panels[2], job, axis)


def _several(panels: Sequence[Any], jobs: Sequence[Curves], axis: _Axis) -> None:
    """A curve for each job in panels of loss, valid and test metric; where it is best has a mark."""
    metrics = {job.metric for job in jobs}
    metric = metrics.pop() if len(metrics) == 1 else ""
    for panel, name, key in zip(panels, ("loss", "valid", "test"), ("loss", "valid_metric", "test_metric"), strict=True):
        for number, job in enumerate(jobs):
            _curve(panel, job, key, axis, color=f"C{number}")
        _name(panel, name if key == "loss" else f"{name} {metric or 'metric'}", key != "loss" and all(job.metric not in NUMBERS for job in jobs))
        for number, job in enumerate(jobs):
            best = job.best()
            if best is not None and key != "loss" and math.isfinite(job.values[key][best]):
                panel.plot(job.at[best] / axis.size, job.values[key][best], "D", color=f"C{number}", markersize=5)
    _legend(panels[0], [job.name for job in jobs], any(job.best() is not None for job in jobs))


def _legend(panel: Any, names: Sequence[str], has_best: bool) -> None:
    """Above a panel, in as many columns as there is place for: each job's colour, and the mark."""
    from matplotlib.lines import Line2D

    keys = [Line2D([], [], color=f"C{number}") for number in range(len(names))]
    if has_best:
        keys.append(Line2D([], [], color="black", marker="D", markersize=5, linestyle=""))
    texts = [_shown(name) for name in (*names, "best valid")[:len(keys)]]
    columns = max(1, min(len(keys), (LETTERS_MOST + 8) // (max(map(len, texts)) + 8)))
    legend = panel.legend(keys, [str(number) for number in range(len(keys))], loc="lower left", bbox_to_anchor=(0, 1.02), borderaxespad=0, ncol=columns,
                          frameon=False, fontsize=9)
    for drawn, text in zip(legend.get_texts(), texts, strict=True):
        drawn.set_text(text)  # matplotlib would leave out names that begin with "_"


# --- figures ---

def matplotlib_of() -> Any:
    """The module; an error says what to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingInput(f"curves need matplotlib ({error}): apt-get install python3-matplotlib, or pip install matplotlib") from error
    return matplotlib


def figure_of(jobs: Sequence[Curves], title: str = "", is_wide: bool = False) -> Any:
    """A matplotlib.figure.Figure of jobs that lie along one axis: three panels below each other, or of one job two side by side."""
    matplotlib_of()
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    class Picture(Figure):  # type: ignore[misc]
        """A figure that notebooks show also before matplotlib.pyplot has told them how."""

        def _repr_png_(self) -> bytes:
            return picture_of(self, "png")

    figure = Picture(figsize=(9, 3.2) if is_wide else (9, 7.2), layout="constrained")
    panels = figure.subplots(1, 2) if is_wide else figure.subplots(3, 1, sharex=True)
    axis = _axis_of(jobs)
    if len(jobs) == 1 and not jobs[0].low:
        _one(panels, jobs[0], axis)
    else:
        _several(panels, jobs, axis)
    for panel in panels:
        if axis.is_log:
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_locator(NullLocator())
        elif axis.name == "epoch":
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xlim(axis.begin / axis.size, axis.end / axis.size)
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
    for panel in panels if is_wide else panels[-1:]:
        panel.set_xlabel(axis.name)
    if title:
        figure.suptitle(_shown(title), fontsize=11)
    return figure


def picture_of(figure: Any, kind: str, **how: Any) -> bytes:
    """The figure as "svg" or "png"."""
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, **how)
    return picture.getvalue()


def plot(result: Result) -> Any:
    """For notebooks."""
    return figure_of([Curves(metric=str(result.json.get("metric") or ""), epochs=result.epochs())], is_wide=True)


def svg_of(result: Result) -> str:
    """The same as SVG."""
    return picture_of(plot(result), "svg").decode()
