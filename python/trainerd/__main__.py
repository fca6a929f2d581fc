"""python3 -m trainerd COMMAND: conversions of data sets, tables of predictions, Correct & Smooth, comparisons with PyTorch Geometric, curves, a web page.

    python3 -m trainerd convert pyg Planetoid:Cora data/cora     torch_geometric.datasets.<class>(root, name)
    python3 -m trainerd convert dgl RedditDataset data/reddit    dgl.data.<class>(raw_dir)
    python3 -m trainerd convert ogb ogbn-arxiv data/arxiv        ogb.nodeproppred.NodePropPredDataset(name)
    python3 -m trainerd convert yandex chameleon_filtered.npz data/chameleon
                                                                 an archive of github.com/yandex-research/heterophilous-graphs
    python3 -m trainerd convert csv edges.csv:nodes.csv data/mine --label club --draw 0.6,0.2,0.2
                                                                 two tables with a line of headings each
    python3 -m trainerd convert parquet nodes/ edges/*.parquet data/mine --label club
                                                                 files of nodes, and of edges: those have both ends

    python3 -m trainerd table runs/cora                          each node's id, class and probabilities as CSV; a links prediction's partners
    python3 -m trainerd smooth runs/cora --out smoothed.npy      a training's probabilities by Correct & Smooth
    python3 -m trainerd load-into-pyg runs/cora data/cora        a job's folder, its npy folder
    python3 -m trainerd plot cora                                curves of the daemon's jobs and groups, or of output folders
    python3 -m trainerd tensorboard runs/cora                    TensorBoard's files of a run, in its tb/
    python3 -m trainerd web                                      the daemon's jobs in a browser of this machine

convert writes a data set of another library as an npy folder, and imports only the named package. All splits are
written; dataset.split chooses one. load-into-pyg builds a job's model from PyTorch Geometric's modules, loads its
best weights, and compares its logits with the job's.
"""
from __future__ import annotations

import argparse
import contextlib
import csv
import importlib
import inspect
import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import MissingInput, TrainerdError, TrainingFailed, UsageError
from .results import Result
from .version import VERSION

WHY_MOST = 300  # letters of another library's error
DIFFERENCE_MOST = 1e-5  # of float32 sums in another order
SMOOTHING = {"correct_layers": "steps of the correction (50); 0: no correction", "correct_alpha": "share of the neighbours in each of them (1)",
             "smooth_layers": "steps of the smoothing (50); 0: no smoothing", "smooth_alpha": "share of the neighbours in each of them (0.8)",
             "scale": "multiply all nodes' errors by this; default: each node's are scaled to the training nodes' mean",
             "workers": "worker processes (1)"}


def _package(name: str, hint: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingInput(f"'{name}' cannot be imported ({error}): pip install {hint}") from error


def _class_of(module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        raise UsageError(f"'{name}' is not in {module.__name__}, expected one of its data sets")
    return getattr(module, name)


def _open(of: Any, downloads: str, **given: str | None) -> Any:
    """Make a data set with the arguments that its class accepts. After a failure no empty folder stays below
    `downloads`."""
    taken = inspect.signature(of).parameters
    if given["name"] is not None and "name" not in taken:
        raise UsageError(f"{of.__name__} takes no name, expected {of.__name__} alone")
    made = [folder for folder in (Path(downloads), *Path(downloads).parents) if not folder.exists()]
    try:
        return of(**{key: value for key, value in given.items() if value is not None and key in taken})
    except TypeError as error:
        raise UsageError(f"{of.__name__}: {error}; expected CLASS:NAME") from error
    except Exception as error:  # of any of the libraries that download, unpack and build
        _remove_empty(downloads, made)
        why = " ".join(str(error).split())[:WHY_MOST] or type(error).__name__
        raise MissingInput(f"{of.__name__} cannot be had: {why}; expected internet, or an earlier download in '{downloads}' (--root)") from error


def _remove_empty(root: str, made: list[Path]) -> None:
    below = [Path(folder) for folder, _, _ in os.walk(root, topdown=False)][:-1]
    for folder in (*below, *made):
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()


def _list(text: str) -> list[str]:
    return text.split(",")


def _label(text: str) -> str | list[str]:
    return _list(text) if "," in text else text


def _shares(text: str) -> list[float]:
    return [float(share) for share in _list(text)]


def convert(asked: argparse.Namespace) -> None:
    from . import data
    from .graph import Options
    from .parquet import from_parquet
    from .tables import Columns, from_csv

    classes = None if asked.classes_of is None else Result(asked.classes_of).class_names()
    options = Options(numbers=asked.numbers, classes=classes, draw=asked.draw, seed=asked.seed, predict_only=asked.predict_only,
                      overwrite=asked.overwrite)
    kind, _, name = asked.dataset.partition(":")
    columns = {key: getattr(asked, key) for key in Columns.__annotations__ if getattr(asked, key) is not None}
    if columns and asked.package not in ("csv", "parquet"):
        raise UsageError(f"--{next(iter(columns)).replace('_', '-')} names a column of tables, expected csv or parquet")
    if asked.package == "parquet":
        from_parquet([asked.dataset, *asked.more], asked.folder, **{**options, **columns})
    elif asked.more:
        raise UsageError(f"'{asked.more[0]}' is one more data set, expected one and a folder")
    elif asked.package == "csv":
        from_csv(kind, name, asked.folder, separator=asked.separator, **{**options, **columns})
    elif asked.package == "pyg":
        of = _class_of(_package("torch_geometric.datasets", "torch torch_geometric"), kind)
        data.from_pyg(_open(of, asked.root, root=asked.root, name=name or None)[0], asked.folder, **options)
    elif asked.package == "dgl":
        of = _class_of(_package("dgl.data", "dgl"), kind)
        data.from_dgl(_open(of, asked.root, raw_dir=asked.root, name=name or None)[0], asked.folder, **options)
    elif asked.package == "ogb":
        of = _package("ogb.nodeproppred", "ogb").NodePropPredDataset
        data.from_ogb(_open(of, asked.root, name=kind, root=asked.root), asked.folder, **options)
    else:
        data.from_yandex(asked.dataset, asked.folder, **options)


def _partners(result: Result, data: str | None) -> Any:
    """The columns of a prediction's partners; their nodes are in the file that the job names."""
    from .arrays import load_array
    from .nodes import partner_columns

    path, dataset = result.json["job"]["predict"]["nodes"], result.json["dataset"]
    source = data or dataset.get("path")
    if not os.path.isfile(path):
        raise MissingInput(f"'{path}' is not there, expected the job's predict.nodes: run this where the job ran")
    return partner_columns(load_array(path), result.array("partners.npy"), result.array("partner_scores.npy"), dataset["nodes"],
                           source if source is not None and os.path.isdir(source) else None)


def table(asked: argparse.Namespace) -> None:
    result = Result(asked.run_folder)
    has_partners = os.path.isfile(os.path.join(result.folder, "partners.npy"))
    columns = _partners(result, asked.data) if has_partners else result.columns(asked.data)
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def smooth(asked: argparse.Namespace) -> None:
    from .arrays import save_array
    from .smoothing import smoothed

    result = Result(asked.run_folder)
    options = {name: value for name in SMOOTHING if name != "workers" and (value := getattr(asked, name)) is not None}
    rows, after = smoothed(result, asked.data, {"autoscale": asked.scale is None, **options}, {"workers": asked.workers})
    save_array(asked.out, rows)
    before = {split: result.best.get(f"{split}_metric", (result.json.get("metrics") or {}).get(split)) for split in ("valid", "test")}
    for when, of in (("before", before), ("after", after)):
        print(f"{when:<6}", *(f" {split} {result.json['metric']} {of[split]:.4f}" for split in ("valid", "test") if of[split] is not None))


def load(asked: argparse.Namespace) -> None:
    from .pyg import logits_difference

    n_tensor, difference = logits_difference(asked.run_folder, asked.data)
    print(f"{n_tensor} tensors loaded; logits differ by at most {difference:.1e} of the largest", flush=True)
    if not difference <= DIFFERENCE_MOST:
        raise TrainingFailed(f"expected at most {DIFFERENCE_MOST:.0e}: is '{asked.data}' the data that the job had?")


def plot(asked: argparse.Namespace) -> None:
    from .plot import draw

    path, n_epoch = draw(asked)
    line = json.dumps({"file": path, "epochs": n_epoch}, separators=(",", ":")) if asked.json else path
    sys.stdout.buffer.write(os.fsencode(f"{line}\n"))  # a path of any bytes


def tensorboard(asked: argparse.Namespace) -> None:
    from .tensorboard import write

    write(asked.run_folder, asked.follow, asked.beside)


def web(asked: argparse.Namespace) -> None:
    from .client import Client
    from .web import serve
    from .web.programs import Programs
    from .web.site import Site

    serve(Client(asked.to, asked.secret_file, user=asked.user, fingerprint=asked.fingerprint), asked.port, Programs(asked.programs),
          Site.of(asked.base_url, asked.allow_host))


def parser_make() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m trainerd", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"trainerd {VERSION} (Python package)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser("convert", help="write a data set of another library as an npy folder")
    one.add_argument("package", choices=("pyg", "dgl", "ogb", "yandex", "csv", "parquet"))
    one.add_argument("dataset", help="class, or class:name; for ogb the data set's name, for yandex the file, for csv EDGES:NODES, two files; for parquet a file or folder")
    one.add_argument("more", nargs="*", metavar="file", help="parquet: more files or folders")
    one.add_argument("folder", help="npy folder to write")
    one.add_argument("--root", default="data/downloads", type=os.path.expanduser, help="where the package keeps its downloads (data/downloads)")
    one.add_argument("--numbers", action="store_true", help="regression: labels are numbers, not classes")
    one.add_argument("--draw", type=_shares, metavar="TRAIN,VALID,TEST", help="draw the splits: shares of the labelled nodes (0.6,0.2,0.2)")
    one.add_argument("--seed", type=int, default=1, help="seed of the drawn splits (1)")
    one.add_argument("--classes-of", metavar="RUN", help="use the classes of this training's results, for a graph that its model will predict for")
    one.add_argument("--predict-only", action="store_true", help="labels and training nodes may be missing")
    one.add_argument("--overwrite", action="store_true", help="replace an older folder")
    for key, help in (("source", "of the edges (source)"), ("target", "of the edges (target)"), ("id", "of the nodes, their names (id)"),
                      ("split", "of the nodes: train, valid, test (split, where there is one)"), ("weight", "of the edges"),
                      ("relation", "of the edges")):
        one.add_argument(f"--{key}", metavar="COLUMN", help=f"csv, parquet: column {help}")
    one.add_argument("--label", type=_label, metavar="COLUMN", help="csv, parquet: column of the nodes (label); several, with commas: several labels")
    one.add_argument("--features", type=_list, metavar="COLUMN,...", help="csv, parquet: columns of the nodes (all other columns of numbers)")
    one.add_argument("--one-hot", type=_list, metavar="COLUMN,...", help="csv, parquet: columns of the nodes; each of their values becomes a feature")
    one.add_argument("--separator", default=",", help="csv: character between values (,)")
    one.set_defaults(run=convert)
    table_of = commands.add_parser("table", help="print a row for each node, by names: id, class, probabilities; of predict.nodes a row for each partner")
    table_of.add_argument("run_folder", metavar="run", help="a job's output folder")
    table_of.add_argument("--data", help="the data folder, if it has moved since the job ran")
    table_of.set_defaults(run=table)
    smoothed = commands.add_parser("smooth", help="write a training's probabilities after Correct & Smooth, and print the accuracies")
    smoothed.add_argument("run_folder", metavar="run", help="a job's output folder")
    smoothed.add_argument("--data", help="the data folder, if it has moved since the job ran")
    smoothed.add_argument("--out", required=True, metavar="FILE", help=".npy file to write: float32 [nodes, classes]")
    for key, help in SMOOTHING.items():
        of_whole = key.endswith("layers") or key == "workers"
        smoothed.add_argument(f"--{key.replace('_', '-')}", type=int if of_whole else float, metavar="N" if of_whole else "X", help=help)
    smoothed.set_defaults(run=smooth)
    two = commands.add_parser("load-into-pyg", help="load a job's weights into PyTorch Geometric's modules, and compare logits")
    two.add_argument("run_folder", metavar="run", help="a job's output folder")
    two.add_argument("data", help="its npy folder, with edges.npy")
    two.set_defaults(run=load)
    login = argparse.ArgumentParser(add_help=False)
    login.add_argument("--to", metavar="ADDRESS", help="the daemon's address, unix:PATH or tcp:HOST:PORT; default $TRAINERD_TO, else this user's "
                       "daemon, else the system's")
    login.add_argument("--secret-file", metavar="FILE", help="tcp: the file with the secret")
    login.add_argument("--user", metavar="NAME", help="tcp: the user to log in as")
    login.add_argument("--fingerprint", metavar="HEX", help="tcp: the fingerprint of the daemon's certificate")
    login.add_argument("--programs", metavar="FOLDER", help="with trainerd and trainctl; default: PATH")
    drawn = commands.add_parser("plot", parents=[login], help="draw curves of jobs, groups or output folders, as trainctl plot")
    drawn.add_argument("jobs", nargs="*", metavar="JOB", help="a job's number or name, or a group")
    drawn.add_argument("-o", "--output", metavar="FILE", help="ends in .svg or .png; default: JOB.svg")
    drawn.add_argument("--from", dest="folders", metavar="FOLDER", action="append", default=[], help="a job's output folder; may be repeated")
    drawn.add_argument("-x", "--x", dest="axis", metavar="AXIS", default="epoch", help="epoch, bytes or time (epoch)")
    drawn.add_argument("-j", "--json", action="store_true", help="print the file's name and the number of epochs as JSON")
    drawn.set_defaults(run=plot)
    events = commands.add_parser("tensorboard", help="write the epochs and settings of a run as TensorBoard's files, in its tb/")
    events.add_argument("run_folder", metavar="run", help="a job's output folder")
    events.add_argument("--follow", action="store_true", help="go on until the run has ended")
    events.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)  # as output.tensorboard starts it
    events.set_defaults(run=tensorboard)
    page = commands.add_parser("web", parents=[login], help="show the daemon's jobs in a browser of this machine", description="Prints an address, "
                               "and serves it on 127.0.0.1 until Ctrl-C. The daemon's address and login are those of trainctl.")
    page.add_argument("--port", type=int, default=0, metavar="N", help="of 127.0.0.1; default 0: a free one")
    page.add_argument("--base-url", metavar="/PATH", default="", help="the path before the pages, which a proxy passes on")
    page.add_argument("--allow-host", metavar="NAME", action="append", default=[],
                      help="a host, or host:port, by which a proxy's pages are reached; may be repeated")
    page.set_defaults(run=web)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command, of the process's arguments or of these; its exit code."""
    asked = parser_make().parse_args(arguments)
    try:
        asked.run(asked)
        sys.stdout.flush()
    except BrokenPipeError:  # as of `table | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except TrainerdError as error:
        print(f"{'trainctl' if getattr(asked, 'programs', None) else 'trainerd'}: {error}", file=sys.stderr)  # trainctl gives its folder
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
