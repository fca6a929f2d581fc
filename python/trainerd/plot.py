"""`trainctl plot`: the curves of a daemon's jobs and groups, or of output folders, as a file."""
from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

from .client import Client
from .curves import AXES, Curves, cut, figure_of, matplotlib_of, mean_of, percent_or_number, picture_of
from .errors import CannotCreate, MissingInput, UsageError
from .results import Result, epochs_of, newest_run
from .web.programs import Programs, login_of

JOBS_MOST = 8
NAME_MOST = 32  # letters of a name in a title, which has as many numbers as it has place for
NO_EPOCH = "none is done yet, or it is a prediction"


class Plot:
    """Curves of jobs, or of the settings of groups. `origins` tell two of one name apart: a job's number, a folder, a group."""

    def __init__(self) -> None:
        self.curves: list[Curves] = []
        self.origins: list[str] = []
        self.groups: list[str] = []

    def add(self, curves: Curves, origin: str) -> None:
        self._need_place()
        self.curves.append(curves)
        self.origins.append(origin)

    def _need_place(self) -> None:
        if len(self.curves) == JOBS_MOST:
            raise UsageError(f"more than {JOBS_MOST} jobs are given, a chart has at most {JOBS_MOST}")

    def add_folder(self, folder: str, name: str) -> None:
        """An output folder. name "": that of its result, else the folder's."""
        epochs = epochs_of(newest_run(folder), is_growing=True)
        of: dict[str, Any] = Result(folder).json if Path(folder, "result.json").exists() else {}
        self.add(Curves(name or str(of.get("name") or folder), str(of.get("metric") or ""), epochs), folder)

    def add_named(self, client: Client, programs: Programs, name: str) -> None:
        """A group of this user, if there is one of the name, else a job by its name or number."""
        if client.jobs(group=name, limit=1):
            self._add_group(client, programs, name)
            return
        job = client.status(name)
        self.add(_curves_of(client, job["id"], job["name"], job.get("metric")), f"job {job['id']}")

    def _add_group(self, client: Client, programs: Programs, group: str) -> None:
        """The means of its settings, the best first, as far as there is place."""
        self._need_place()
        compared = programs.compare([group], True, login_of(client))
        if any(run["job"] is None for setting in compared["settings"] for run in setting["runs"]):
            raise UsageError(f"'{group}' is a folder of results here, too: run trainctl plot elsewhere, or with --from {group}")
        self.groups.append(group)
        settings, n_left = compared["settings"], JOBS_MOST - len(self.curves)
        if len(settings) > n_left:
            print(f"the best {n_left} of {len(settings)} settings are drawn", file=sys.stderr)
        for setting in settings[:n_left]:
            runs = [_curves_of(client, run["job"], "", compared["metric"]) for run in setting["runs"]]
            mean = mean_of(runs, setting_name(setting["settings"], len(runs), group))
            if mean.at:  # one of its runs has begun
                self.add(mean, group)

    def check(self, axis: str) -> None:
        """Lay all along the axis; a job without epochs, or without bytes, is refused."""
        if not self.curves:
            raise MissingInput(f"there is no epoch to draw: {NO_EPOCH}")
        for curves in self.curves:
            if not curves.at:
                raise MissingInput(f"there is no epoch to draw{f' of {curves.name}' if len(self.curves) > 1 else ''}: {NO_EPOCH}")
            curves.lay(axis)
            if axis == "bytes" and not curves.at[-1] > 0:
                raise MissingInput(f"{curves.name}: its workers received nothing: there are no bytes to draw over")

    def tell_apart(self) -> None:
        """Names that are not the only ones get their origin."""
        names = [curves.name for curves in self.curves]
        for curves, origin in zip(self.curves, self.origins, strict=True):
            if names.count(curves.name) > 1:
                curves.name += f" ({origin})"

    def title(self) -> str:
        if self.groups:
            return f"{cut(', '.join(self.groups), NAME_MOST)}: means over seeds and splits, bands of one standard deviation"
        return job_title(self.curves[0]) if len(self.curves) == 1 else f"{len(self.curves)} jobs"


def _curves_of(client: Client, job: int, name: str, metric: str | None) -> Curves:
    return Curves(name, metric or "", client.stream("metrics", job=job))


def setting_name(settings: dict[str, Any], n_run: int, group: str) -> str:
    """"lr=0.01, hidden=16 (3 runs)": keys by their last words, unless two have the same; the group's name where there is one setting alone."""
    words = [key.rpartition(".")[2] for key in settings]
    def text(value: Any) -> str:
        return "-" if value is None or value == "" else value if isinstance(value, str) else json.dumps(value)
    pairs = (f"{word if words.count(word) == 1 else key}={text(value)}" for word, (key, value) in zip(words, settings.items(), strict=True))
    return f"{', '.join(pairs) or group} ({n_run} run{'s' if n_run != 1 else ''})"


def job_title(job: Curves) -> str:
    best, loss = job.best(), job.values["loss"][-1]
    n, valid = len(job.at), math.nan if best is None else job.values["valid_metric"][best]
    where = f" at epoch {job.at[best]:.0f}" if best is not None and job.axis == "epoch" else ""
    return (f"{cut(job.name, NAME_MOST)}: {n} epoch{'s' if n != 1 else ''}, loss {'-' if math.isnan(loss) else f'{loss:.4g}'}, "
            f"best valid {percent_or_number(job.metric, valid)}{where}")


def path_of(name: str) -> str:
    """The name of a job or a group as a file of the current folder."""
    last = name.rpartition("/")[2] or name
    safe = "".join("_" if letter == "/" or letter < " " else letter for letter in f"{last}.svg")
    return "_" + safe[1:] if safe.startswith(".") else safe


def _write(path: str, picture: bytes) -> None:
    aside = Path(path).with_name(f".{Path(path).name}.new")
    try:
        aside.write_bytes(picture)
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise CannotCreate(f"cannot create '{path}': {error.strerror or error}") from error


def draw(asked: Namespace) -> tuple[str, int]:
    """The file, and the most epochs of a job in it."""
    if bool(asked.folders) == bool(asked.jobs):
        raise UsageError("plot takes either JOB or --from FOLDER; see trainctl plot --help")
    if len(asked.folders) > JOBS_MOST:
        raise UsageError(f"{len(asked.folders)} jobs are given, a chart has at most {JOBS_MOST}")
    if asked.axis not in AXES:
        raise UsageError(f"--x is '{asked.axis}', expected {', '.join(list(AXES)[:-1])} or {list(AXES)[-1]}")
    if asked.output is not None and not asked.output.endswith((".svg", ".png")):
        raise UsageError(f"'{asked.output}' ends in neither .svg nor .png")
    matplotlib_of()  # before anything is read
    plot = Plot()
    for folder in asked.folders:
        plot.add_folder(folder, folder.rstrip("/").rpartition("/")[2] if len(asked.folders) > 1 else "")
    if asked.jobs:
        client, programs = Client(asked.to, asked.secret_file, user=asked.user, fingerprint=asked.fingerprint), Programs(asked.programs)
        for name in asked.jobs:
            plot.add_named(client, programs, name)
    plot.check(asked.axis)
    path: str = asked.output if asked.output is not None else path_of(asked.jobs[0] if plot.groups else plot.curves[0].name)
    plot.tell_apart()
    _write(path, _picture(plot, path[-3:]))
    return path, max(len(curves.at) for curves in plot.curves)


def _picture(plot: Plot, kind: str) -> bytes:
    """Texts of an SVG are texts, to be searched and selected; the same numbers are the same bytes. The settings of the user's own figures, and of a
    current folder that may belong to another user, play no part."""
    matplotlib = matplotlib_of()
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "trainerd"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks
        return picture_of(figure_of(plot.curves, plot.title()), kind, dpi=200, **({"metadata": {"Date": None}} if kind == "svg" else {}))
