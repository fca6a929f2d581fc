#!/usr/bin/env python3
"""Compare what trainerd trains with PyTorch Geometric (or DGL), feature by feature, on the same splits of real graphs.

    PYTHONPATH=build/python /usr/bin/python3 scripts/compare-pyg.py [--data DIR] [--seeds N] [--curve N] [--double] [--json FILE] [CASE ...]

For each case: a job file is written and run, and the same model of PyG's layers is trained by the usual script.
    curve   from trainerd's initial weights, without dropout: the largest relative difference of the training loss over the first epochs,
            the largest difference of the validation and test metric, and, to show what the feature changes, the difference between
            trainerd's losses with and without it
    seeds   with dropout, each program with initial weights of its own: the test metric of the epoch that is best on the validation split
            (without one, of the last epoch), its mean and sample deviation over the seeds
--double: curves in double precision on both sides (workers.device = "reference"). --json adds a line of results for each case to FILE.
Prints a row of a table for each case. DIR has a folder for each data set, ../shared/datasets by default; DGL is for the cases sage-weights
and gin-weights. Exit code 1: a curve differs by more than 1e-5.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import numpy as np
import torch
import torch.nn.functional as F
from compare_jobs import ROOT, link_data, run_job, trainerd
from torch.nn import Linear, ModuleList, ReLU, Sequential
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, RGCNConv, SAGEConv, TransformerConv
from torch_geometric.nn import Linear as PyGLinear

Array = Any  # of NumPy
Epoch = dict[str, float]
TOLERANCE = 1e-5
DROPOUTS = ("model.dropout", "model.input_dropout", "model.attention_dropout")
ATTENTIONS = {"gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv}
ACTIVATIONS = {"relu": torch.relu, "elu": F.elu}
LOWER_IS_BETTER = ("rmse", "mae")
DGL_NAMES = {"fc_neigh.weight": "lin_l.weight", "fc_self.weight": "lin_r.weight", "fc_self.bias": "lin_l.bias", "apply_func.": "nn."}


# --- the cases -----------------------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Case:
    """A feature: the data set, the job's keys, and keys without the feature. derive: makes new files of the data set's folder."""

    data: str
    keys: dict[str, Any]
    without: dict[str, Any] = field(default_factory=dict)
    derive: Callable[[Path, Path], None] | None = None
    note: str = ""


def edge_overlaps(folder: Path) -> tuple[Array, Array, Array]:
    """For each edge: words that both ends have, and how many each end has."""
    edges, starts, words = (np.load(folder / f"{name}.npy") for name in ("edges", "feat_indptr", "feat_indices"))
    rows = [set(words[a:b].tolist()) for a, b in zip(starts, starts[1:])]
    both = np.array([len(rows[a] & rows[b]) for a, b in edges.T], np.float32)
    sizes = np.array([len(row) for row in rows], np.float32)
    return both, sizes[edges[0]], sizes[edges[1]]


def cosine_weights(source: Path, folder: Path) -> None:
    """Weights of edges: the cosine of the words of their ends."""
    both, left, right = edge_overlaps(source)
    np.save(folder / "edge_weight.npy", both / np.sqrt(np.maximum(left * right, 1)))


def edge_columns(source: Path, folder: Path) -> None:
    """Three features of each edge: Jaccard index and cosine of the words of its ends, 1 / sqrt(product of their degrees)."""
    both, left, right = edge_overlaps(source)
    edges = np.load(source / "edges.npy")
    degree = np.bincount(edges[1], minlength=len(np.load(source / "labels.npy"))).astype(np.float32)
    columns = [both / np.maximum(left + right - both, 1), both / np.sqrt(np.maximum(left * right, 1)),
               1 / np.sqrt(degree[edges[0]] * degree[edges[1]])]
    np.save(folder / "edge_attr.npy", np.stack(columns, 1).astype(np.float32))


def log_degrees(source: Path, folder: Path) -> None:
    """Labels that are numbers: ln(1 + degree)."""
    n_node = len(np.load(source / "labels.npy"))
    degree = np.bincount(np.load(source / "edges.npy")[1], minlength=n_node)
    (folder / "labels.npy").unlink()
    np.save(folder / "labels.npy", np.log1p(degree).astype(np.float32))
    meta = json.loads((source / "meta.json").read_text())
    (folder / "meta.json").unlink()
    (folder / "meta.json").write_text(json.dumps({key: meta[key] for key in ("name", "nodes", "features")}))


GCN = {"dataset.normalize_features": "row", "model.kind": "gcn", "model.hidden": 16, "model.dropout": 0.5, "model.input_dropout": 0.5,
       "train.epochs": 200, "train.weight_decay": 5e-4, "train.decay": "first"}
ATTENTION = {"dataset.normalize_features": "row", "model.hidden": 8, "model.heads": 8, "model.dropout": 0.6, "model.input_dropout": 0.6,
             "model.attention_dropout": 0.6, "model.activation": "elu", "train.lr": 0.005, "train.weight_decay": 5e-4, "train.epochs": 200}
PHOTO = {"dataset.normalize_features": "row", "model.kind": "gcn", "model.hidden": 16, "model.dropout": 0.5, "train.lr": 0.05,
         "train.epochs": 100}
DEGREE = {**PHOTO, "model.dropout": 0.2, "train.epochs": 50}
WEIGHTED = {**GCN, "dataset.edge_weights": "yes"}
AIFB = {"dataset.undirected": "yes", "model.kind": "rgcn", "model.hidden": 16, "model.embedding": False, "train.epochs": 50}
COSINES = "made weights: cosine of the ends' words"
COLUMNS = "made features: Jaccard, cosine, degrees"
DEGREES = "made labels: ln(1 + degree)"

CASES = {
    "clip-norm": Case("cora", {**GCN, "train.clip_norm": 0.02}, {"train.clip_norm": 0}, note="at most 0.02"),
    "label-smoothing": Case("citeseer", {**GCN, "train.label_smoothing": 0.1}, {"train.label_smoothing": 0}, note="0.1"),
    "plateau": Case("citeseer", {**GCN, "train.lr": 0.1, "train.lr_schedule": "reduce_on_plateau", "train.lr_patience": 2,
                                 "train.lr_threshold": 0.01, "train.lr_min": 0.001},
                    {"train.lr_schedule": "constant"}, note="lr 0.1, halved after 2 evaluations"),
    "class-weights": Case("amazon_photo", {**PHOTO, "train.class_weights": "balanced", "train.metric": "macro_f1"},
                          {"train.class_weights": "none"}, note="macro F1"),
    "class-weights-multi": Case("hgb_imdb", {"model.kind": "rgcn", "model.hidden": 32, "model.dropout": 0.5, "train.epochs": 50,
                                             "train.weight_decay": 5e-4, "train.class_weights": "balanced", "train.metric": "macro_f1"},
                                {"train.class_weights": "none"}, note="several labels, macro F1"),
    "average-precision": Case("minesweeper", {"model.kind": "sage", "model.hidden": 32, "model.dropout": 0.2, "train.epochs": 100,
                                              "train.metric": "average_precision"}, note="average precision"),
    "mse": Case("amazon_photo", {**DEGREE, "train.loss": "mse", "train.metric": "r2"}, derive=log_degrees, note=DEGREES + ", R²"),
    "mae": Case("amazon_photo", {**DEGREE, "train.loss": "mae", "train.metric": "mae"}, derive=log_degrees, note=DEGREES + ", MAE"),
    "huber": Case("amazon_photo", {**DEGREE, "train.loss": "huber", "train.huber_delta": 0.5, "train.metric": "rmse"},
                  derive=log_degrees, note=DEGREES + ", RMSE"),
    "gcn-weights": Case("cora", WEIGHTED, {"dataset.edge_weights": "no"}, cosine_weights, COSINES),
    "sage-weights": Case("cora", {**WEIGHTED, "model.kind": "sage"}, {"dataset.edge_weights": "no"}, cosine_weights, COSINES + ", DGL"),
    "gin-weights": Case("cora", {**WEIGHTED, "model.kind": "gin"}, {"dataset.edge_weights": "no"}, cosine_weights, COSINES + ", DGL"),
    "gat-features": Case("cora", {**ATTENTION, "model.kind": "gat"}, derive=edge_columns, note=COLUMNS),
    "gatv2-features": Case("cora", {**ATTENTION, "model.kind": "gatv2"}, derive=edge_columns, note=COLUMNS),
    "transformer-features": Case("cora", {**ATTENTION, "model.kind": "transformer"}, derive=edge_columns, note=COLUMNS),
    "rgcn": Case("aifb", AIFB, note="no embedding"),
    "rgcn-bases": Case("aifb", {**AIFB, "model.bases": 10}, note="no embedding, 10 bases"),
}


# --- the model, its loss and its metrics in PyTorch ------------------------------------------------------------------------------------

def take_sparse_rows(linear: Any) -> None:
    """Let a linear map take sparse rows, too, which saves the time that zeros take."""
    dense = linear.forward

    def forward(x: Any) -> Any:
        if not x.is_sparse:
            return dense(x)
        y = torch.sparse.mm(x, linear.weight.t())
        return y if linear.bias is None else y + linear.bias

    linear.forward = forward


def drop(x: Any, p: float, training: bool) -> Any:
    """Dropout; of sparse rows it is that of their values."""
    if not x.is_sparse:
        return F.dropout(x, p, training)
    return torch.sparse_coo_tensor(x.indices(), F.dropout(x.values(), p, training), x.shape).coalesce()


class DGLConv(torch.nn.Module):
    """A layer of DGL that takes weights of edges, called as one of PyG; its linear maps are drawn as PyG's."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.conv = conv
        self.graph: Any = None
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, x: Any, edge_index: Any, weight: Any) -> Any:
        """Rows of x through the layer; the graph is made once."""
        import dgl
        if self.graph is None:
            self.graph = dgl.graph(tuple(edge_index), num_nodes=len(x))
        return self.conv(self.graph, x, edge_weight=weight)


def make_conv(job: dict[str, Any], f_in: int, f_out: int, last: bool, n_relation: int, edge_dim: int) -> Any:
    """A layer of the job's kind; the last one averages its heads, others have them side by side. Weighted sage and gin are DGL's."""
    model, kind = job["model"], job["model"]["kind"]
    if kind in ATTENTIONS:
        return ATTENTIONS[kind](f_in, f_out, model["out_heads" if last else "heads"], not last, edge_dim=edge_dim or None,
                                dropout=model["attention_dropout"])
    if kind == "rgcn":
        return RGCNConv(f_in, f_out, n_relation, num_bases=model["bases"] or None)
    if kind == "gcn":
        return GCNConv(f_in, f_out, cached=True)
    weighted = job["dataset"]["edge_weights"] == "yes"
    if weighted:
        import dgl.nn
    if kind == "sage":
        return DGLConv(dgl.nn.SAGEConv(f_in, f_out, "mean")) if weighted else SAGEConv(f_in, f_out)
    mlp = Sequential(Linear(f_in, model["hidden"]), ReLU(), Linear(model["hidden"], f_out))
    return DGLConv(dgl.nn.GINConv(mlp, "sum")) if weighted else GINConv(mlp)


class Model(torch.nn.Module):
    """Two layers of the job's kind with an activation and dropout, as the usual script has them."""

    def __init__(self, job: dict[str, Any], f_in: int, n_class: int, n_relation: int, edge_dim: int) -> None:
        super().__init__()
        model = self.options = job["model"]
        if model["kind"] == "rgcn" and model["embedding"]:  # a map for each node type, a vector for each node without features
            self.embedding = Linear(f_in, model["hidden"], bias=False)
            f_in = model["hidden"]
        width = model["hidden"] * (model["heads"] if model["kind"] in ATTENTIONS else 1)
        self.convs = ModuleList([make_conv(job, f_in, model["hidden"], False, n_relation, edge_dim),
                                 make_conv(job, width, n_class, True, n_relation, edge_dim)])
        for module in self.convs[0].modules():
            if isinstance(module, (Linear, PyGLinear)):
                take_sparse_rows(module)

    def forward(self, x: Any, edge_index: Any, of_edge: Any) -> Any:
        """The logits of all nodes; of_edge: types, weights or features of the edges, or None."""
        graph = (edge_index,) if of_edge is None else (edge_index, of_edge)
        if hasattr(self, "embedding"):
            x = torch.sparse.mm(x, self.embedding.weight.t())
        elif x is not None:
            x = drop(x, self.options["input_dropout"], self.training)
        x = ACTIVATIONS[self.options["activation"]](self.convs[0](x, *graph))
        return self.convs[1](F.dropout(x, self.options["dropout"], self.training), *graph)

    def load(self, weights: dict[str, Array]) -> None:
        """Take trainerd's weights, which have the names of PyG's modules."""
        own = self.state_dict()
        for name in own:
            key = name.replace(".conv.", ".")
            for here, there in DGL_NAMES.items():
                key = key.replace(here, there) if ".conv." in name else key
            if key in weights or not key.endswith(".eps"):  # GIN's is a constant here
                own[name] = torch.from_numpy(weights[key]).to(own[name].dtype).reshape(own[name].shape)
        self.load_state_dict(own)


def make_loss(train: dict[str, Any], labels: Any, rows: Any) -> Any:
    """PyTorch's module of the job's loss; weights of classes are those of the training rows."""
    kind, smoothing = train["loss"], train["label_smoothing"]
    if kind == "auto":
        kind = "cross_entropy" if labels.dim() == 1 else "bce"
    weight = None
    if train["class_weights"] == "balanced":
        known = labels[rows]
        if labels.dim() == 1:
            weight = len(known) / (labels.max() + 1) / torch.bincount(known)
        else:
            weight = (known == 0).sum(0) / (known == 1).sum(0)
        weight = weight.to(torch.get_default_dtype())
    return {"cross_entropy": lambda: torch.nn.CrossEntropyLoss(weight, label_smoothing=smoothing),
            "bce": lambda: torch.nn.BCEWithLogitsLoss(pos_weight=weight), "mse": torch.nn.MSELoss, "mae": torch.nn.L1Loss,
            "huber": lambda: torch.nn.HuberLoss(delta=train["huber_delta"])}[kind]()


def macro_f1(logits: Array, labels: Array) -> float:
    """The mean of 2 tp / (2 tp + fp + fn) over the classes that are there or predicted, or over all labels of several."""
    if labels.ndim == 1:
        classes = np.union1d(labels, logits.argmax(1))
        predicted, labels = logits.argmax(1)[:, None] == classes, labels[:, None] == classes
    else:
        predicted, labels = logits > 0, labels == 1
    both = (predicted & labels).sum(0)
    return float(np.mean(2 * both / np.maximum(predicted.sum(0) + labels.sum(0), 1)))


def average_precision(scores: Array, labels: Array) -> float:
    """The sum over thresholds of precision times what recall gains; equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    scores, labels = scores[order], labels[order]
    ends = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    found = np.cumsum(labels)[ends]
    return float((np.diff(found, prepend=0) / found[-1] * found / (ends + 1)).sum())


METRICS: dict[str, Callable[[Array, Array], float]] = {
    "accuracy": lambda logits, labels: float((logits.argmax(1) == labels).mean()),
    "macro_f1": macro_f1,
    "average_precision": lambda logits, labels: average_precision(logits[:, 1].astype(np.float64) - logits[:, 0], labels == 1),
    "r2": lambda values, labels: float(1 - ((labels - values) ** 2).sum() / ((labels - labels.mean()) ** 2).sum()),
    "rmse": lambda values, labels: math.sqrt(((labels - values) ** 2).mean()),
    "mae": lambda values, labels: float(np.abs(labels - values).mean()),
}


# --- both programs ---------------------------------------------------------------------------------------------------------------------

def read_data(folder: Path, run: Any) -> tuple[Any, Any, dict[str, Any]]:
    """The model's inputs, the labels, and the nodes of each split."""
    inputs = [part.to(torch.get_default_dtype()) if part is not None and part.is_floating_point() else part
              for part in trainerd.pyg_inputs(run, folder)]
    if run.json["job"]["model"]["kind"] in ("gcn", *ATTENTIONS) and (inputs[0] != 0).float().mean() < 0.1:
        inputs[0] = inputs[0].to_sparse()  # these layers' linear maps come first
    labels = torch.from_numpy(np.load(folder / "labels.npy"))
    if run.json["job"]["train"]["loss"] in ("mse", "mae", "huber"):
        labels = labels[:, None]
    labels = labels.to(torch.get_default_dtype()) if labels.is_floating_point() else labels.long()
    splits = {split: torch.from_numpy(np.load(folder / f"{split}_idx.npy").astype(np.int64)) for split in ("train", "valid", "test")}
    return inputs, labels, splits


def train_pyg(job: dict[str, Any], metric_name: str, model: Any, inputs: Any, labels: Any, splits: dict[str, Any]) -> list[Epoch]:
    """The usual script. The numbers of each epoch: the loss before the step, the rate, and the metrics after it."""
    train, metric = job["train"], METRICS[metric_name]
    criterion = make_loss(train, labels, splits["train"])
    groups = [{"params": model.parameters(), "weight_decay": train["weight_decay"]}]
    if train["decay"] == "first":
        groups = [{"params": model.convs[0].parameters(), "weight_decay": train["weight_decay"]}, {"params": model.convs[1].parameters()}]
    optimizer = torch.optim.Adam(groups, lr=train["lr"])
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", train["lr_gamma"], train["lr_patience"], train["lr_threshold"],
                                                           min_lr=train["lr_min"])
    epochs = []
    for _ in range(train["epochs"]):
        epoch = {"lr": optimizer.param_groups[0]["lr"]}
        model.train()
        optimizer.zero_grad()
        loss = criterion(model(*inputs)[splits["train"]], labels[splits["train"]])
        loss.backward()
        if train["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), train["clip_norm"])
        optimizer.step()
        model.eval()
        with torch.no_grad():
            logits = model(*inputs)
        for split, rows in splits.items():
            if len(rows):
                epoch[f"{split}_metric"] = metric(logits[rows].numpy(), labels[rows].numpy())
        if train["lr_schedule"] == "reduce_on_plateau":
            scheduler.step(criterion(logits[splits["valid"]], labels[splits["valid"]]))
        epochs.append({**epoch, "loss": float(loss)})
    return epochs


def new_model(run: Any, edge_index: Any) -> Any:
    """The model of a job with weights that PyTorch draws."""
    job, data = run.json["job"], run.json["dataset"]
    typed = job["model"]["kind"] == "rgcn"
    f_in = len(run.logits()) if typed and not job["model"]["embedding"] else data["features"]
    return Model(job, f_in, run.logits().shape[1], data["relations"], data.get("edge_features", 0))


def difference(ours: list[Epoch], theirs: list[Epoch], key: str, relative: bool) -> float:
    """The largest difference of a number over the epochs."""
    return max((abs(a[key] - b[key]) / (abs(b[key]) if relative else 1) for a, b in zip(ours, theirs) if key in b), default=0.0)


def compare_curve(case: Case, keys: dict[str, Any], folder: Path, work: Path, n_epoch: int, double: bool) -> dict[str, float]:
    """Losses, rates and metrics from the same weights, without dropout; and how far trainerd's losses are without the feature."""
    keys = {**keys, **dict.fromkeys(DROPOUTS, 0.0), "train.epochs": n_epoch, "workers.device": "reference" if double else "cpu"}
    keys = {key: value for key, value in keys.items() if key != "model.attention_dropout" or keys["model.kind"] in ATTENTIONS}
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    start = run_job({**keys, "train.epochs": 0}, work / "start")
    run = run_job(keys, work / "curve")
    inputs, labels, splits = read_data(folder, run)
    model = new_model(run, inputs[1])
    model.load(start.weights("model.safetensors"))
    theirs = train_pyg(run.json["job"], run.json["metric"], model, inputs, labels, splits)
    ours: list[Any] = run.epochs()
    torch.set_default_dtype(torch.float32)
    out = {"loss": difference(ours, theirs, "loss", True), "lr": difference(ours, theirs, "lr", True),
           "metric": max(difference(ours, theirs, f"{split}_metric", False) for split in ("valid", "test")),
           "first_loss": ours[0]["loss"], "last_loss": ours[-1]["loss"], "last_lr": ours[-1]["lr"]}
    if "grad_norm" in ours[0]:
        out["clipped"] = sum(epoch["grad_norm"] > keys["train.clip_norm"] for epoch in ours) / len(ours)
    if case.without:
        plain: list[Any] = run_job({**keys, **case.without, "model.init": str(work / "start/model.safetensors")}, work / "plain").epochs()
        out["without"] = difference(plain, ours, "loss", True)
    return out


def compare_seeds(keys: dict[str, Any], folder: Path, work: Path, n_seed: int) -> dict[str, list[float]]:
    """Test metrics of trainerd and PyG over seeds, each of its best epoch."""
    ours, theirs = [], []
    for seed in range(1, n_seed + 1):
        run = run_job({**keys, "train.seed": seed}, work / f"seed{seed}")
        ours.append(float(run.test_metric))
        if seed == 1:
            inputs, labels, splits = read_data(folder, run)
        torch.manual_seed(seed)
        metric = run.json["metric"]
        epochs = train_pyg(run.json["job"], metric, new_model(run, inputs[1]), inputs, labels, splits)
        sign = -1 if metric in LOWER_IS_BETTER else 1
        best = max(epochs, key=lambda epoch: sign * epoch["valid_metric"]) if len(splits["valid"]) else epochs[-1]
        theirs.append(best["test_metric"])
    return {"trainerd": ours, "pyg": theirs}


def row_of(name: str, case: Case, curve: dict[str, float], seeds: dict[str, list[float]], n_epoch: int) -> str:
    """A row of the table in docs/measured.md."""
    texts = [f"{statistics.mean(v):.4f} ± {statistics.stdev(v) if len(v) > 1 else 0:.4f}" for v in seeds.values() if v]
    without = f"{curve['without']:.1e}" if "without" in curve else "–"
    return (f"| {name}: {case.data} {case.keys['model.kind']} ({case.note}) | {curve['loss']:.1e} over {n_epoch}, {without} "
            f"| {curve['metric']:.1e} | {' | '.join(texts) or '– | –'} |")


def main() -> None:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(description="Compare trainerd with PyTorch Geometric, feature by feature.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/datasets", help="folder of the data sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--curve", type=int, default=50, help="epochs of the loss curve")
    parser.add_argument("--double", action="store_true", help="curves in double precision")
    parser.add_argument("--json", type=Path, help="file that results are added to")
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {sorted(unknown)[0]}, expected one of {', '.join(CASES)}")
    failed = False
    for name in options.cases or CASES:
        case = CASES[name]
        with tempfile.TemporaryDirectory(prefix="compare-pyg-") as temporary:
            work, folder, source = Path(temporary), Path(temporary) / "data", options.data.resolve() / case.data
            link_data(source, folder)
            if case.derive:
                case.derive(source, folder)
            keys = {"dataset.path": str(folder), "partition.parts": 4, "workers.count": 1, "workers.threads": 1, "workers.device": "cpu",
                    **case.keys}
            curve = compare_curve(case, keys, folder, work, options.curve, options.double)
            seeds = compare_seeds(keys, folder, work, options.seeds)
        print(row_of(name, case, curve, seeds, options.curve), flush=True)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as out:
                out.write(json.dumps({"case": name, "double": options.double, "curve": curve, **seeds}) + "\n")
        failed = failed or curve["loss"] > TOLERANCE
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
