"""trainerd.train and resume with the standard library alone: keys, progress, interrupts, a daemon."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import tempfile
import time
import tomllib
import unittest
import unittest.mock
import warnings
from typing import Any

import trainerd
from daemon import PATIENCE_S, PROGRAMS, DaemonCase
from trainerd.fields import Epoch
from trainerd.keywords import job_of
from trainerd.programs import Keys, find_program, keys_of, warning_of
from trainerd.progress import Bar, Cell

KARATE = {"generator": "karate"}
ENDLESS = {"generator": "sbm", "nodes": 4000}


class FolderCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainerd-python-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        patched = unittest.mock.patch.dict(os.environ, {"TRAINERD_BIN": str(PROGRAMS)})
        patched.start()
        self.addCleanup(patched.stop)

    def processes(self) -> set[int]:
        """Those in the test's folder."""
        found = set()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").resolve() == self.folder.resolve():
                    found.add(int(process.name))
        return found

    def assert_alone(self) -> None:
        """No other process is in the folder, or will be: one that is killed because its parent has ended still takes a moment."""
        until = time.monotonic() + PATIENCE_S
        while self.processes() != {os.getpid()} and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(self.processes(), {os.getpid()})


PROGRAM = trainerd.Program.from_text("def layer(v, out, share=0.5):\n    return share * linear(\"lin\", v.x, out)\n")


class Keywords(unittest.TestCase):
    keys = Keys({"name": [""], "kind": ["model"], "hidden": ["model"], "lr": ["train"], "parts": ["partition"], "nodes": ["dataset"],
                 "seed": ["dataset", "partition", "train"], "cache": ["partition", "memory"], "model": ["predict"]}, 200, ["gcn", "gat", "program"])

    def job(self, given: dict[str, Any], set: dict[str, Any] | None = None) -> dict[str, Any]:
        return job_of(given, self.keys, set).job

    def refused(self, kind: type[BaseException], words: str, given: dict[str, Any], set: dict[str, Any] | None = None) -> None:
        with self.assertRaises(kind) as caught:
            self.job(given, set)
        self.assertIn(words, str(caught.exception))

    def test_are_keys_of_a_job_file(self) -> None:
        job = self.job({"model": "gcn", "hidden": 8, "lr": 0.1, "workers": 2, "parts": 4, "name": "x", "seed": 3, "nodes": None})
        self.assertEqual(job, {"model": {"kind": "gcn", "hidden": 8}, "train": {"lr": 0.1, "seed": 3}, "workers": {"count": 2},
                               "partition": {"parts": 4}, "name": "x"})

    def test_may_be_sections_and_whole_names_that_are_merged(self) -> None:
        job = self.job({"model": {"kind": "gat"}, "train": {"lr": 0.1}, "dataset.seed": 5, "hidden": 9}, {"train.seed": 2, "model": {"hidden": 9}})
        self.assertEqual(job, {"model": {"kind": "gat", "hidden": 9}, "train": {"lr": 0.1, "seed": 2}, "dataset": {"seed": 5}})
        self.assertEqual(self.job({"model": PROGRAM}), {"model": {"kind": "program", "program": PROGRAM}})
        job = self.job({"model": PROGRAM, "args": {"share": 0.1}}, {"model": {"args": {"more": 2}}})
        self.assertEqual(job, {"model": {"kind": "program", "program": PROGRAM, "args": {"share": 0.1, "more": 2}}})

    def test_that_give_a_key_two_values_are_refused(self) -> None:
        for given, set, words in (
                ({"lr": 0.1}, {"train.lr": 0.2}, "lr=0.1 and set={'train.lr': 0.2} both give train.lr, expected one of them"),
                ({"train": {"lr": 0.1}, "lr": 0.3}, None, "train={'lr': 0.1} and lr=0.3 both give train.lr"),
                ({"model": PROGRAM}, {"model": {"kind": "gat"}}, "set={'model': {'kind': 'gat'}} both give model.kind"),
                ({"args": {"a": 1}}, {"model": {"args": {"a": 2}}}, "args={'a': 1} and set={'model': {'args': {'a': 2}}} both give model.args.a")):
            self.refused(trainerd.UsageError, words, given, set)

    def test_may_be_the_name_of_a_text_or_its_file(self) -> None:
        pna = self.job({"model": "pna"})["model"]
        self.assertEqual((pna["kind"], "mean_log_degree" in pna["program"].text), ("program", True))
        self.assertEqual(self.job({"model": "gcn"}), {"model": {"kind": "gcn"}})
        self.refused(trainerd.JobFileError, "model='gatt': there is no kind or text of that name; did you mean 'gat'?", {"model": "gatt"})
        self.refused(trainerd.JobFileError, "model='GCNConv': there is no kind or text of that name; did you mean 'gcn'?", {"model": "GCNConv"})
        self.assertEqual(self.job({"model": PROGRAM.text})["model"]["program"].text, PROGRAM.text)
        self.refused(trainerd.MissingInput, "cannot open the program 'own.gnn'", {"model": "own.gnn"})
        self.refused(trainerd.UsageError, "model is 3, expected a kind", {"model": 3})

    def test_that_no_section_or_several_have_are_refused(self) -> None:
        self.refused(trainerd.JobFileError, "'cache' is a key of [partition] and of [memory], expected one of 'partition.cache', 'memory.cache'",
                     {"cache": "off"})
        self.refused(trainerd.JobFileError, "hiden=1: there is no key 'hiden'; did you mean hidden=?", {"hiden": 1})


class Programs(FolderCase):
    def test_are_found(self) -> None:
        self.assertEqual(find_program(), str(PROGRAMS / "trainerd"))
        self.assertEqual(find_program(given="mine"), "mine")
        with unittest.mock.patch.dict(os.environ, {"PATH": str(PROGRAMS)}):
            del os.environ["TRAINERD_BIN"]
            self.assertEqual(find_program("trainctl"), str(PROGRAMS / "trainctl"))
            os.environ["PATH"] = str(self.folder)
            with self.assertRaises(trainerd.MissingInput) as caught:
                find_program()
        self.assertIn("the program trainerd is neither in $TRAINERD_BIN nor in this package nor on PATH", str(caught.exception))

    def test_say_their_keys(self) -> None:
        keys = keys_of(str(PROGRAMS / "trainerd"))
        self.assertEqual((keys.sections["name"], keys.sections["hidden"], keys.sections["seed"], keys.epochs, keys.kinds[0], keys.kinds[-1]),
                         ([""], ["model"], ["dataset", "task", "partition", "train"], 200, "gcn", "program"))

    def test_warn_in_three_ways(self) -> None:
        for line, expected in (('ts=1 level=warn proc=c at=a.c:3 msg="x is \\"no\\" y"', 'x is "no" y'), ("warning: all is slow", "all is slow"),
                               ('job.toml:3:1: model.heads is not used: model.kind is "gcn"', 'model.heads is not used: model.kind is "gcn"'),
                               ("epoch 1/2  loss 0.7", None), ('ts=1 level=info msg="x"', None)):
            self.assertEqual(warning_of(line), expected)
        with self.assertRaises(trainerd.MissingInput):
            keys_of("/none")


class ABar(unittest.TestCase):
    def shown(self, is_live: bool, n_epoch: int) -> str:
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            bar = Bar("gcn", n_epoch)
            bar.is_live = is_live
            for n_done in range(1, n_epoch + 1):
                bar.show(n_done, {"loss": "0.5"})
            bar.close()
        return text.getvalue()

    def test_is_some_lines_where_a_line_cannot_be_redrawn(self) -> None:
        lines = self.shown(False, 1000).splitlines()
        self.assertEqual((len(lines), lines[0], lines[-1]), (10, "gcn [##......................] 100/1000  loss 0.5",
                                                             "gcn [########################] 1000/1000  loss 0.5"))

    def test_is_redrawn_elsewhere_and_ends_with_the_last_epoch(self) -> None:
        text = self.shown(True, 3)
        self.assertTrue(text.startswith("\rgcn [########................] 1/3  loss 0.5"))
        self.assertTrue(text.endswith("\rgcn [########################] 3/3  loss 0.5\x1b[K\n"))


class Shown:
    """An output of a notebook, as IPython's display gives it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, shown: dict[str, str], raw: bool, display_id: bool) -> Any:
        self.texts.append("new " + shown["text/plain"])
        return self

    def update(self, shown: dict[str, str], raw: bool) -> None:
        self.texts.append(shown["text/plain"])


class ACell(unittest.TestCase):
    def test_has_one_output_that_ends_with_the_last_epoch(self) -> None:
        shown = Shown()
        cell = Cell("gcn", 1000, shown)
        for n_done in range(1, 1001):
            cell.show(n_done, {"loss": "0.5"})
        cell.close()
        self.assertTrue(shown.texts[0].startswith("new gcn ["))
        self.assertEqual([text for text in shown.texts if text.startswith("new")], shown.texts[:1])
        self.assertEqual(shown.texts[-1], "gcn [########################] 1000/1000  loss 0.5")
        self.assertLess(len(shown.texts), 50)


class ATraining(FolderCase):
    def test_returns_its_result_and_shows_each_epoch(self) -> None:
        epochs: list[Epoch] = []
        result = trainerd.train(KARATE, model="gcn", hidden=4, epochs=7, workers=2, set={"train.lr": 0.02}, progress=epochs.append)
        self.assertEqual([epoch["epoch"] for epoch in epochs], list(range(7)))
        self.assertEqual((result.test_metric, result.last["loss"]), (result.json["best"]["test_metric"], epochs[-1]["loss"]))
        self.assertEqual((result.json["job"]["model"]["hidden"], result.json["job"]["train"]["lr"], result.json["job"]["workers"]["count"]),
                         (4, 0.02, 2))
        self.assertEqual((result.folder.parent, result.json["name"]), (self.folder.resolve() / "runs", "gcn"))
        again = trainerd.train(KARATE, epochs=1, output="here", progress=False)
        self.assertEqual(again.folder, self.folder.resolve() / "here")
        self.assertEqual(tomllib.loads((again.folder / "job.toml").read_text(encoding="utf-8"))["train"], {"epochs": 1})

    def test_passes_on_what_the_job_says(self) -> None:
        with self.assertWarns(trainerd.JobWarning) as caught:
            result = trainerd.train(KARATE, epochs=1, heads=4, progress=False)
        self.assertEqual((str(caught.warning), caught.filename),
                         ('model.heads is not used: model.kind is "gcn", and it goes with "gat", "gatv2" or "transformer"', __file__))
        log = (result.folder / "log.txt").read_text(encoding="utf-8")
        self.assertIn("model.heads is not used", log)
        self.assertIn("epoch 1/1", log)
        with warnings.catch_warnings(), self.assertRaises(trainerd.JobWarning):
            warnings.simplefilter("error")
            trainerd.train(ENDLESS, epochs=100_000_000, heads=4, progress=False)
        self.assert_alone()

    def test_of_a_text_has_the_text_and_its_parameters(self) -> None:
        first, second = (trainerd.train(KARATE, model=PROGRAM, epochs=3, progress=False, **keys) for keys in (
            {"args": {"share": 0.0}}, {"set": {"model": {"args": {"share": 0.0}}}}))
        self.assertEqual(first.json["job"]["model"]["kind"], "program")
        for result in (first, second):
            logits = (result.folder / "logits.npy").read_bytes()[128:]
            self.assertEqual(logits, bytes(len(logits)))

    def test_that_is_wrong_says_so_and_leaves_nothing(self) -> None:
        mistakes: tuple[tuple[type[BaseException], str, dict[str, Any]], ...] = (
            (trainerd.JobFileError, "hiden=3: there is no key 'hiden'; did you mean hidden=?", {"hiden": 3}),
            (trainerd.JobFileError, "did you mean 'gcn'?", {"model": "gnc"}),
            (trainerd.JobFileError, "unknown key 'epoch' in [train]; did you mean 'train.epochs'?", {"train": {"epoch": 3}}),
            (trainerd.JobFileError, "steps=3: the model is a text, which has no key 'steps'; a parameter of the text itself is given by "
             "args={'steps': ...}", {"model": PROGRAM, "steps": 3}),
            (trainerd.UsageError, "output='a' and set={'output.dir': 'b'} both give the folder", {"output": "a", "set": {"output.dir": "b"}}),
            (trainerd.UsageError, "data and set={'dataset.generator': 'sbm'} both give dataset.generator", {"set": {"dataset.generator": "sbm"}}),
            (trainerd.UsageError, "program='own.gnn' is the path of trainerd, expected a text as model='own.gnn'", {"program": "own.gnn"}),
            (trainerd.JobFileError, "train.lr is {}, expected a text, a number or a boolean", {"set": {"train": {"lr": {}}}}),
            (trainerd.JobFileError, "unknown section [trian]; did you mean [train]?", {"trian": {"lr": 1}}),
            (trainerd.MissingInput, "cannot open the program 'x'", {"set": {"model.program": "x"}}),
            (trainerd.MissingInput, "dataset.path: ", {"data": "nowhere"}),
            (trainerd.MissingInput, "cannot run '/none'", {"program": "/none"}))
        for kind, words, keys in mistakes:
            with self.subTest(words), self.assertRaises(kind) as caught:
                trainerd.train(**{"data": KARATE, "progress": False, **keys})
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("job.toml", str(caught.exception))
            self.assertEqual(os.listdir(self.folder), [])

    def test_that_is_interrupted_is_resumed(self) -> None:
        def stop(epoch: Epoch) -> None:
            if epoch["epoch"] >= 20:
                raise KeyboardInterrupt
        with self.assertRaises(trainerd.Interrupted) as caught:
            trainerd.train(ENDLESS, epochs=100_000_000, output="out", progress=stop)
        self.assertRegex(str(caught.exception), r"^interrupted after \d+ of 100000000 epochs: .*; trainerd.resume\('.*/out'\) continues from there$")
        n_done = int(str(caught.exception).split()[2])
        self.assertEqual(os.listdir(self.folder), ["out"])
        epochs: list[Epoch] = []
        result = trainerd.resume("out", epochs=n_done + 5, workers=2, progress=epochs.append)
        self.assertEqual([epoch["epoch"] for epoch in epochs], list(range(n_done + 5)))
        self.assertEqual(result.last["epoch"], n_done + 4)
        straight = trainerd.train(ENDLESS, epochs=n_done + 5, progress=False)
        self.assertEqual((result.folder / "logits.npy").read_bytes(), (straight.folder / "logits.npy").read_bytes())

    def test_whose_progress_fails_ends(self) -> None:
        processes: set[int] = set()
        def fail(_: Epoch) -> None:
            processes.update(self.processes())
            raise OverflowError("mine")
        with self.assertRaises(OverflowError):
            trainerd.train(ENDLESS, epochs=100_000_000, workers=2, output="out", progress=fail)
        self.assertGreaterEqual(len(processes), 4)  # this, the coordinator, and two workers
        self.assertEqual(self.processes(), {os.getpid()})
        with self.assertRaises(trainerd.JobFileError) as caught:
            trainerd.resume("out", lr=0.5)
        self.assertRegex(str(caught.exception), r"^cannot resume: train.lr is 0.5, in checkpoint .* it is 0.01: expected the same$")
        n_done = json.loads(next(self.folder.glob("out/.run-*/metrics.jsonl")).read_text(encoding="utf-8").splitlines()[-1])["epoch"] + 1
        self.assertEqual(trainerd.resume("out", epochs=n_done + 1, progress=False).last["epoch"], n_done)

    def test_that_never_was_cannot_be_resumed(self) -> None:
        with self.assertRaises(trainerd.MissingInput) as caught:
            trainerd.resume("none")
        self.assertIn("none/job.toml': No such file or directory, expected the output folder of a training by trainerd.train", str(caught.exception))

    def test_has_embeddings_and_a_page_for_notebooks(self) -> None:
        result = trainerd.train(KARATE, epochs=3, progress=False)
        self.assertRegex(result._repr_html_(), "<svg|pip install matplotlib")
        self.assertIn("<th>best</th><td>", result._repr_html_())
        self.assertIn("<th>last</th><td>3</td>", result._repr_html_())  # from 1, as the curves
        self.assertIn("&lt;b&gt;", trainerd.Result("/<b>", json.loads((result.folder / "result.json").read_text(encoding="utf-8")))._repr_html_())


class ATrainingByADaemon(DaemonCase):
    def test_has_the_same_result(self) -> None:
        patched = unittest.mock.patch.dict(os.environ, {"TRAINERD_BIN": str(PROGRAMS)})
        patched.start()
        self.addCleanup(patched.stop)
        epochs: list[Any] = []
        keys: dict[str, Any] = {"epochs": 5, "workers": 2, "partition": {"cache": "off"}}
        with self.assertWarns(trainerd.JobWarning) as caught:
            there = trainerd.train(KARATE, daemon=self.client, progress=epochs.append, heads=4, **keys)
        self.assertEqual(str(caught.warning), 'model.heads is not used: model.kind is "gcn", and it goes with "gat", "gatv2" or "transformer"')
        self.assertIn("model.heads is not used", (there.folder / "log.txt").read_text(encoding="utf-8"))
        here = trainerd.train(KARATE, progress=False, **keys)
        self.assertEqual([epoch["epoch"] for epoch in epochs], list(range(5)))
        self.assertEqual((there.folder / "logits.npy").read_bytes(), (here.folder / "logits.npy").read_bytes())
        self.expect(trainerd.MissingInput, "dataset.path", trainerd.train, "nowhere", daemon=self.client, progress=False)
