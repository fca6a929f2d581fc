"""Curves: the numbers against NumPy's, what a figure has of them, and `trainctl plot` by a daemon and of folders."""
import io
import itertools
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree
from typing import Any

import numpy as np

import trainerd
from daemon import PROGRAMS, SHORT, DaemonCase
from folders import FolderCase
from trainerd.curves import KEYS, POINTS_MOST, Curves, figure_of, mean_of
from trainerd.plot import path_of, setting_name

NAN = math.nan
METRICS = ("accuracy", "rmse", "r2")


def drawn_epochs(rng: random.Random, metric: str, n_most: int = 30) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl, of which some epochs lack some values."""
    return [{"epoch": epoch, "metric": metric, **{key: rng.random() if rng.random() < 0.8 else None for key in KEYS}}
            for epoch in range(rng.randint(1, n_most))]


def table_of(curves: Curves, n: int) -> Any:
    """KEYS × n epochs; NaN where there is no such epoch."""
    table = np.full((len(KEYS), n), NAN)
    for row, key in enumerate(KEYS):
        table[row, np.array(curves.at, int) - 1] = curves.values[key]
    return table


class Numbers(unittest.TestCase):
    def setUp(self) -> None:
        self.rng = random.Random(1)

    def test_means_are_over_the_runs_that_have_the_epoch_and_the_value(self) -> None:
        for _ in range(100):
            metric = self.rng.choice(METRICS)
            runs = [Curves(epochs=drawn_epochs(self.rng, metric)) for _ in range(self.rng.randint(1, 6))]
            mean, n = mean_of(runs), max(len(run.at) for run in runs)
            tables = np.stack([table_of(run, n) for run in runs])
            known = np.isfinite(tables).sum(0)
            with np.errstate(invalid="ignore", divide="ignore"):
                middle = np.nansum(tables, 0) / known
                deviation = np.sqrt(np.nansum((tables - middle) ** 2, 0) / (known - 1))
            deviation[known < 2] = NAN
            self.assertEqual((mean.at, mean.metric), (list(range(1, n + 1)), metric))
            np.testing.assert_allclose(table_of(mean, n), middle, rtol=1e-12)
            for row, key in enumerate(KEYS):
                low, high = middle[row] - deviation[row], middle[row] + deviation[row]
                if key.endswith("_metric") and metric == "accuracy":
                    low, high = np.maximum(low, 0), np.minimum(high, 1)
                np.testing.assert_allclose(mean.low[key], low, rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(mean.high[key], high, rtol=1e-9, atol=1e-12)
        self.assertEqual(mean_of([]).at, [])

    def test_bytes_are_those_that_training_received_and_seconds_those_of_epochs(self) -> None:
        for axis in ("bytes", "time", "epoch"):
            epochs = drawn_epochs(self.rng, "accuracy")
            curves = Curves(epochs=epochs)
            curves.lay(axis)
            column = {key: np.array([epoch[key] or 0.0 for epoch in epochs]) for key in KEYS}
            steps = {"bytes": column["bytes_received"] - column["bytes_evaluate"], "time": column["epoch_s"], "epoch": np.ones(len(epochs))}[axis]
            np.testing.assert_allclose(curves.at, np.cumsum(steps))

    def test_an_attempt_that_goes_on_from_a_checkpoint_replaces_what_lies_behind_it(self) -> None:
        for _ in range(100):
            kept: dict[int, float] = {}
            curves, epoch = Curves(), 0
            for _ in range(self.rng.randint(1, 200)):
                loss = self.rng.random()
                curves.add({"epoch": epoch, "loss": loss})
                kept = {at: value for at, value in kept.items() if at < epoch} | {epoch: loss}
                epoch = self.rng.randrange(epoch + 1) if self.rng.random() < 0.1 else epoch + 1
            self.assertEqual(dict(zip(curves.at, curves.values["loss"], strict=True)), {at + 1: value for at, value in kept.items()})

    def test_the_best_is_the_first_of_the_best_validation_metrics(self) -> None:
        for metric in METRICS:
            valid = np.array([self.rng.choice((NAN, 0.1, 0.5, 0.9)) for _ in range(50)])
            curves = Curves(epochs=[{"epoch": epoch, "metric": metric, "valid_metric": value} for epoch, value in enumerate(valid.tolist())])
            self.assertEqual(curves.best(), (np.nanargmin if metric == "rmse" else np.nanargmax)(valid))
        self.assertIsNone(Curves(epochs=[{"epoch": 0, "loss": 1}]).best())

    def test_what_is_no_number_is_not_known(self) -> None:
        value: Any
        for value in ("1", None, [1], math.inf, NAN, 10 ** 400, {}):
            curves = Curves(epochs=[{"epoch": 0, "loss": value}, {"epoch": value, "loss": 1}, {}])
            self.assertEqual(curves.at, [1])
            self.assertTrue(math.isnan(curves.values["loss"][0]))

    def test_a_setting_is_named_by_what_differs(self) -> None:
        self.assertEqual(setting_name({"train.lr": 0.01, "model.hidden": 16}, 3, "g"), "lr=0.01, hidden=16 (3 runs)")
        self.assertEqual(setting_name({"train.seed": None, "dataset.seed": True, "model.kind": "gcn", "a": ""}, 1, "g"),
                         "train.seed=-, dataset.seed=true, kind=gcn, a=- (1 run)")
        self.assertEqual(setting_name({}, 2, "g"), "g (2 runs)")

    def test_a_file_is_named_after_the_job(self) -> None:
        for name, path in (("k", "k.svg"), ("a/b", "b.svg"), ("a/", "a_.svg"), (".x", "_x.svg"), ("a\nb", "a_b.svg"), ("", "_svg")):
            self.assertEqual(path_of(name), path)


def texts_of(figure: Any) -> list[str]:
    """All that a figure says, legends and axes too."""
    from matplotlib.text import Text
    figure.savefig(io.BytesIO())  # which writes the axes' numbers
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def points_of(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in line.get_xydata()]


class AFigure(unittest.TestCase):
    def setUp(self) -> None:
        self.rng = random.Random(2)

    def test_of_one_job_has_each_known_number_by_each_axis(self) -> None:
        for axis, is_wide in itertools.product(("epoch", "bytes", "time"), (False, True)):
            epochs = [{**epoch, "bytes_received": 3e6, "bytes_evaluate": 1e6, "epoch_s": 60.0} for epoch in drawn_epochs(self.rng, "roc_auc")]
            epochs[0] |= {"valid_metric": 0.5, "test_metric": 0.5}
            job = Curves("j", epochs=epochs)
            job.lay(axis)
            figure = figure_of([job], "title", is_wide)
            step = {"epoch": 1, "bytes": 2, "time": 1 if len(epochs) > 1 else 60}[axis]  # MB, and minutes from two on
            lines = [line for panel in figure.axes[:2] for line in panel.lines if line.get_label() != "best valid"]
            expected = {key.removesuffix("_metric").replace("_", " "): [(step * (i + 1), epoch[key]) for i, epoch in enumerate(epochs)
                                                                        if epoch[key] is not None] for key in KEYS[:5]}
            for line in lines:
                np.testing.assert_allclose(points_of(line), expected.pop(line.get_label()))
            self.assertFalse(any(expected.values()))
            best = figure.axes[1].lines[-1].get_xdata()[0]
            self.assertAlmostEqual(best, step * (job.best() or 0) + step)
            said = texts_of(figure)
            self.assertIn({"epoch": "epoch", "bytes": "MB received in training", "time": "minutes of epochs" if step == 1 else "seconds of epochs"}[axis],
                          said)
            self.assertTrue({"title", "loss", "roc_auc", "valid", "best valid"} <= set(said), said)
            self.assertTrue(any(text.endswith(" %") for text in said))

    def test_of_regression_has_numbers_as_they_are_and_one_without_values_says_so(self) -> None:
        epochs = [{"epoch": epoch, "metric": "rmse", "valid_metric": 2.0 - epoch} for epoch in range(2)]
        said = texts_of(figure_of([Curves(epochs=epochs)]))
        self.assertFalse(any(text.endswith(" %") for text in said), said)
        self.assertEqual(said.count("no values yet"), 2)  # loss, seconds
        self.assertEqual(texts_of(figure_of([Curves()])).count("no values yet"), 3)

    def test_of_more_epochs_than_it_is_wide_has_some_and_always_the_last(self) -> None:
        losses = [self.rng.random() for _ in range(10_000)]
        for jobs, least in ((1, POINTS_MOST / 2), (2, POINTS_MOST / 8)):
            job = Curves(epochs=[{"epoch": i, "loss": loss, "epoch_s": 1, "bytes_received": 10.0 ** (i % 7)} for i, loss in enumerate(losses)])
            job.lay("epoch" if jobs == 1 else "bytes")
            points = points_of(figure_of([job] * jobs).axes[0].lines[0])
            self.assertTrue(least < len(points) <= POINTS_MOST + 2, len(points))
            places = [losses.index(loss) for _, loss in points]
            self.assertEqual((places, places[-1]), (sorted(places), 9999))

    def test_of_phases_has_seconds_up_to_the_epochs_and_cuts_a_long_first_one(self) -> None:
        epochs = [{"epoch": i, "epoch_s": 1.0, "compute_s": 0.5, "wait_s": 0.75} for i in range(100)]
        for first in (1.0, 50.0):
            epochs[0]["epoch_s"] = first
            panel = figure_of([Curves(epochs=epochs)]).axes[2]
            tops = [max(float(y) for _, y in area.get_paths()[0].vertices) for area in panel.collections]
            self.assertEqual(tops, [0.5, 1.0 if first == 1 else 1.25, first])  # compute, waiting cut to the epoch, other
            self.assertEqual({float(x) for x, _ in panel.collections[0].get_paths()[0].vertices}, {i + 0.5 for i in range(101)})
            self.assertLess(panel.get_ylim()[1], 2)
            self.assertEqual("the highest is 50" in panel.get_ylabel(), first == 50)

    def test_of_several_jobs_has_a_curve_a_mark_and_a_name_of_each(self) -> None:
        names = ["hidden=16 (3 runs)", "_b", "$x^", "$\\frac{$", "a long name " * 20, "\x1b[31m\udcff", "k (job 1)", "k (job 2)"]
        jobs = [Curves(name, epochs=[{**epoch, "bytes_received": 1000.0 * (i + 1), "bytes_evaluate": None} for epoch in drawn_epochs(self.rng, "accuracy")])
                for i, name in enumerate(names)]
        for job in jobs:
            job.values["valid_metric"][0] = job.values["test_metric"][0] = job.values["loss"][0] = 0.5
            job.lay("bytes")
        figure = figure_of(jobs, "8 jobs")
        said = texts_of(figure)
        self.assertTrue({"8 jobs", "valid accuracy", "test accuracy", "best valid", "hidden=16 (3 runs)", "_b", "$x^", "\\x1b[31m\\udcff"} <=
                        {text.replace("\\$", "$") for text in said}, said)
        self.assertTrue(any(text.startswith("a long name a long") and text.endswith("…") for text in said))
        for panel, key in zip(figure.axes, ("loss", "valid_metric", "test_metric"), strict=True):
            self.assertEqual(panel.get_xscale(), "log")
            curves = [line for line in panel.lines if line.get_marker() != "D"]
            size = 1000 if max(job.at[-1] for job in jobs) >= 2000 else 1
            for line, job in zip(curves, jobs, strict=True):
                known = [(at / size, value) for at, value in zip(job.at, job.values[key], strict=True) if not math.isnan(value)]
                np.testing.assert_allclose(points_of(line), known)
            marks = [points_of(line)[0] for line in panel.lines if line.get_marker() == "D"]
            best = [] if key == "loss" else [(job.at[place] / size, job.values[key][place]) for job in jobs if (place := job.best()) is not None
                                             and not math.isnan(job.values[key][place])]
            np.testing.assert_allclose(np.reshape(marks, (-1, 2)), np.reshape(best, (-1, 2)))
        self.assertIn("valid metric", texts_of(figure_of([Curves(epochs=drawn_epochs(self.rng, metric)) for metric in METRICS])))

    def test_of_means_has_bands_of_one_deviation_and_one_job_has_none(self) -> None:
        runs = [Curves(epochs=[{"epoch": i, "loss": self.rng.random()} for i in range(5)]) for _ in range(3)]
        mean = mean_of(runs, "m")
        panel = figure_of([mean]).axes[0]
        corners = {(round(float(x)), round(float(y), 9)) for x, y in panel.collections[0].get_paths()[0].vertices}
        self.assertEqual(corners, {(i + 1, round(of["loss"][i], 9)) for of in (mean.low, mean.high) for i in range(5)})
        for curves in ([mean_of(runs[:1])], runs):
            self.assertEqual([len(panel.collections) for panel in figure_of(curves).axes], [0, 0, 0])

    def test_needs_matplotlib_and_says_how_to_install_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(sys.modules, {"matplotlib": None}):
            pathlib.Path(folder, "metrics.jsonl").write_text('{"epoch": 0, "loss": 1.5}\n', encoding="utf-8")
            result = trainerd.Result(folder, {})
            with self.assertRaises(trainerd.MissingInput) as caught:
                result.plot()
            self.assertIn("apt-get install python3-matplotlib, or pip install matplotlib", str(caught.exception))
            self.assertIn("pip install matplotlib", result._repr_html_())


def texts_in(path: str | os.PathLike[str]) -> list[str]:
    """The texts of an SVG, which is one."""
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def plot(folder: pathlib.Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROGRAMS / "trainctl"), "plot", *arguments], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True,
                          check=False)


class APictureOfFolders(FolderCase):
    def write(self, name: str, lines: str, result: dict[str, Any] | None = None) -> None:
        path = self.folder / name
        path.mkdir(parents=True)
        (path / "metrics.jsonl").write_bytes(os.fsencode(lines))
        if result is not None:
            (path / "result.json").write_text(json.dumps(result), encoding="utf-8")

    def expect(self, code: int, words: str, *arguments: str, **environment: str) -> None:
        done = plot(self.folder, *arguments, **environment)
        self.assertEqual((done.returncode, words in done.stdout + done.stderr), (code, True), done)

    def test_has_title_labels_and_the_same_bytes_each_time(self) -> None:
        self.write("m", '{"epoch": 0, "metric": "rmse", "loss": 2, "valid_loss": 3, "valid_metric": 0.25}\n'
                   '{"epoch": 1, "metric": "rmse", "loss": 1, "valid_metric": 0.5}\n', {"name": "<job> & $x", "metric": "rmse"})
        self.expect(0, "x.svg\n", "--from", "m", "-o", "x.svg")
        said, bytes = texts_in(self.folder / "x.svg"), (self.folder / "x.svg").read_bytes()
        self.assertTrue({"<job> & $x: 2 epochs, loss 1, best valid 0.25 at epoch 1", "rmse", "loss", "valid loss", "epoch"} <= set(said), said)
        self.assertNotIn(b"nan", bytes)
        (self.folder / "matplotlibrc").write_text("figure.facecolor: red\n", encoding="utf-8")
        self.expect(0, '{"file":"<job> & $x.svg","epochs":2}\n', "--from", "m", "--json")
        self.assertEqual((self.folder / "<job> & $x.svg").read_bytes(), bytes)
        self.expect(0, "x.png", "--from", "m", "-o", "x.png", "-x", "time")
        self.assertEqual((self.folder / "x.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(int.from_bytes((self.folder / "x.png").read_bytes()[16:20], "big"), 1800)

    def test_compares_folders_by_their_last_names_and_an_unfinished_run_by_its_lines(self) -> None:
        line = '{"epoch": 0, "metric": "mae", "loss": 2, "valid_metric": 0.5, "bytes_received": 10}\n'
        self.write("runs/a", line, {"name": "k"})
        self.write("b/.run-1", line * 2)
        self.write("b/.run-2", line + '{"epoch": 1, "lo')
        os.utime(self.folder / "b/.run-1/metrics.jsonl", (1, 1))
        self.expect(0, "ab.svg", "--from", "runs/a/", "--from", "b", "--x", "bytes", "-o", "ab.svg")
        said = texts_in(self.folder / "ab.svg")
        self.assertTrue({"a", "b", "2 jobs", "valid mae", "bytes received in training"} <= set(said), said)

    def test_says_what_is_wrong(self) -> None:
        self.write("m", '{"epoch": 0, "loss": 2}\n')
        self.write("none", "")
        self.write("bad", "[]\n")
        self.write("bytes", '{"epoch": 0, "loss": 2}\n\udcff\n')
        self.expect(2, "trainctl: plot takes either JOB or --from FOLDER; see trainctl plot --help", "1", "--from", "m")
        self.expect(2, "9 jobs are given, a chart has at most 8", *["--from", "m"] * 9)
        self.expect(2, "--x is 'miles', expected epoch, bytes or time", "--from", "m", "--x", "miles")
        self.expect(2, "'x.gif' ends in neither .svg nor .png", "--from", "m", "-o", "x.gif")
        self.expect(66, "m: its workers received nothing", "--from", "m", "--x", "bytes")
        self.expect(66, "there is no epoch to draw: none is done yet, or it is a prediction", "--from", "none")
        self.expect(66, "there is no epoch to draw of none:", "--from", "m", "--from", "none")
        self.expect(66, "cannot open 'nowhere/metrics.jsonl': No such file", "--from", "m", "--from", "nowhere")
        self.expect(65, "'bad/metrics.jsonl', line 1: expected a JSON object", "--from", "bad")
        self.expect(65, "'bytes/metrics.jsonl', line 2: Expecting value", "--from", "bytes")
        self.expect(73, "cannot create 'nowhere/x.svg': No such file or directory", "--from", "m", "-o", "nowhere/x.svg")
        self.expect(73, "cannot create 'm/metrics.jsonl/x.svg': Not a directory", "--from", "m", "-o", "m/metrics.jsonl/x.svg")
        self.expect(78, "'here' is not an address, expected unix:PATH or tcp:HOST:PORT", "--to", "here", "1")
        self.expect(69, "no daemon answers on unix:/nowhere/socket: No such file", "--to", "unix:/nowhere/socket", "1")
        self.assertEqual([path.name for path in self.folder.iterdir() if path.is_file()], [])

    def test_without_matplotlib_says_what_to_install(self) -> None:
        (self.folder / "matplotlib.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
        self.expect(66, "trainctl: curves need matplotlib (not here): apt-get install python3-matplotlib, or pip install matplotlib", "--from", "m",
                    PYTHONPATH=str(self.folder))


class APictureOfADaemonsJobs(DaemonCase):
    def test_has_a_curve_for_each_job_and_each_setting_of_a_group(self) -> None:
        each = [{"train.lr": lr, "model.hidden": hidden, "train.seed": seed} for lr in (0.01, 0.1, 0.2) for hidden in (4, 8, 16) for seed in (1, 2)]
        for job in (*self.client.submit_group(SHORT, each, group="g"), *self.client.submit_group(SHORT, [{"train.seed": 1}, {"train.seed": 2}], group="one")):
            job.wait(240)
        to = ("--to", self.daemon.address)
        done = plot(self.folder, *to, "g")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "g.svg\n", "the best 8 of 9 settings are drawn\n"))
        said = texts_in(self.folder / "g.svg")
        self.assertIn("g: means over seeds and splits, bands of one standard deviation", said)
        self.assertEqual(len([text for text in said if re.fullmatch(r"lr=0\.\d+, hidden=\d+ \(2 runs\)|hidden=\d+, lr=0\.\d+ \(2 runs\)", text)]), 8, said)
        done = plot(self.folder, *to, "g", "one")
        self.assertEqual((done.returncode, "more than 8 jobs are given" in done.stderr), (2, True), done)
        self.assertEqual(plot(self.folder, *to, "one", "19", "20", "-o", "both.svg").returncode, 0)
        self.assertTrue({"one (2 runs)", "short (job 19)", "short (job 20)", "valid accuracy"} <= set(texts_in(self.folder / "both.svg")))
        done = plot(self.folder, *to, "--json", "20")
        self.assertEqual(json.loads(done.stdout), {"file": "short.svg", "epochs": 3})
        self.assertTrue(any(text.startswith("short: 3 epochs, loss ") for text in texts_in(self.folder / "short.svg")))
        done = plot(self.folder, *to, "none")
        self.assertEqual((done.returncode, done.stderr), (66, "trainctl: there is no job 'none'\n"))

    def test_of_jobs_that_have_not_begun_is_refused(self) -> None:
        waiting = {**SHORT, "workers": {"count": 4, "threads": 1}, "partition": {"parts": 4}}
        first = self.client.submit({**waiting, "name": "first", "dataset": {"generator": "sbm", "nodes": 4000}, "train": {"epochs": 100_000_000}})
        for event in first.watch(timeout=240):
            if event.get("event") == "epoch":
                break
        self.client.submit_group(waiting, [{"train.seed": 1}, {"train.seed": 2}], group="waits")
        done = plot(self.folder, "--to", self.daemon.address, "waits")
        self.assertEqual((done.returncode, "there is no epoch to draw: none is done yet" in done.stderr), (66, True), done)
        self.client.cancel_group("waits")
        first.cancel()
