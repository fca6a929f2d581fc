"""Curves of a training: as a figure of matplotlib where it is installed, else as `trainctl plot` draws them."""
from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UsageError
from .programs import Child, find_program

if TYPE_CHECKING:
    from .results import Result


class Drawing:
    """SVG, which notebooks show."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def savefig(self, file: str) -> None:
        """Write it to a file whose name ends in .svg."""
        if not file.endswith(".svg"):
            raise UsageError(f"'{file}' does not end in .svg: other formats need matplotlib")
        Path(file).write_text(self.svg, encoding="utf-8")


def figure_of(result: Result) -> Any:
    """A matplotlib.figure.Figure: loss, and the metric of each split; the epoch of the best weights is marked."""
    from matplotlib.figure import Figure

    class Curves(Figure):  # type: ignore[misc]
        """A figure that notebooks show also before matplotlib.pyplot has told them how."""

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()
    epochs = result.epochs()
    figure = Curves(figsize=(9, 3.2), layout="constrained")
    loss, metric = figure.subplots(1, 2)
    for axes, names, title in ((loss, ("loss", "valid_loss"), "loss"),
                               (metric, ("train_metric", "valid_metric", "test_metric"), str(result.json.get("metric", "metric")))):
        for name in names:
            points = [(epoch["epoch"] + 1, value) for epoch in epochs if (value := epoch.get(name)) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=name.removesuffix("_metric"))
        best = result.best.get("epoch")
        if best is not None:
            axes.axvline(best + 1, color="grey", linewidth=0.8, linestyle="--", label="best weights")
        axes.set(title=title, xlabel="epoch")
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    return figure


def drawing_of(result: Result) -> Drawing:
    with tempfile.TemporaryDirectory(prefix="trainerd-plot-") as temporary:
        file = Path(temporary, "curves.svg")
        child = Child(find_program("trainctl"), ["plot", "--from", str(result.folder), "--output", str(file)])
        child.wait()
        child.result()
        return Drawing(file.read_text(encoding="utf-8"))


def plot(result: Result) -> Any:
    try:
        return figure_of(result)
    except ImportError:
        return drawing_of(result)


def svg_of(result: Result) -> str:
    """The same as SVG."""
    drawn = plot(result)
    if isinstance(drawn, Drawing):
        return drawn.svg
    text = io.StringIO()
    drawn.savefig(text, format="svg")
    return text.getvalue()
