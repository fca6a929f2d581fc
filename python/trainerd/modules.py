"""A model of PyTorch Geometric as a job's [model] and weights, and its predictions by `trainerd --predict`.

It is a vertex program (module_program.py). What has no counterpart is refused by its name in the model.
"""
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .arrays import np, save_safetensors
from .data import from_pyg
from .errors import UsageError
from .module_calls import IGNORED, Call, Tensors, calls_of
from .module_program import job_of_calls
from .prediction import predict_here
from .tensors import adjacent_edges, array_of
from .toml_text import settings_of

ENDS = ("LogSoftmax", "Softmax")


def job_of_module(model: Any, columns: int = 0) -> tuple[dict[str, dict[str, Any]], Tensors]:
    """The [model] and [dataset] sections of a job, and the weights by trainerd's names, of a model of PyTorch Geometric. columns: of the
    input.

    Raises UsageError that names the module that has no counterpart.
    """
    return _job_of(without_end(calls_of(model))[0], columns)


def without_end(calls: list[Call]) -> tuple[list[Call], Any]:
    """The calls up to the logits, and the softmax behind them; None: there is none."""
    last = [call for call in calls if type(call.module).__name__ not in IGNORED][-1:]
    if last and type(last[0].module).__name__ in ENDS and last[0].module.dim in (1, -1):
        return calls[:calls.index(last[0])], last[0].module
    return calls, None


def _job_of(calls: list[Call], columns: int) -> tuple[dict[str, dict[str, Any]], Tensors]:
    if not calls:
        raise UsageError("model: it has no modules before its softmax")
    return job_of_calls(calls, columns)


def _check_edges(data: Any) -> None:
    """Edges that a data folder cannot have as the model reads them."""
    edges = adjacent_edges(data.adj_t)[0] if getattr(data, "edge_index", None) is None else array_of(data.edge_index)
    n_repeat = edges.shape[1] - len(np.unique(edges[0].astype(np.int64) * (int(edges.max(initial=0)) + 1) + edges[1]))
    if n_repeat > 0:
        raise UsageError(f"data: {n_repeat} edges are there twice, and a graph has each once: expected data.coalesce()")


def predict_pyg(model: Any, data: Any, *, workers: int = 1, set: Mapping[str, Any] | Sequence[str] | None = None,
                program: str | os.PathLike[str] | None = None, timeout: float | None = None) -> Any:
    """The output of a trained model of PyTorch Geometric on the whole graph, a tensor [N, C], as model.eval() and
    model(data.x, data.edge_index) make it. It is computed by `trainerd --predict` on this machine in a fraction of the memory.

    model     a BasicGNN (GCN, GraphSAGE, GIN, GAT, PNA, EdgeCNN), a Sequential of PyTorch Geometric, a list of modules in the order of their
              calls, or a class of your own. What has no counterpart is refused by its name (docs/predict.md)
    data      torch_geometric.data.Data: x, edge_index, and edge_weight for layers that take it
    workers   processes that compute; the result does not depend on them
    set       further settings of the job: {"partition.parts": 4, "memory.limit": "2GiB"}
    program   path of the program trainerd; default: in the folder $TRAINERD_BIN, else on PATH
    timeout   seconds, after which the prediction is stopped and TimeoutError raised
    """
    import torch
    calls, end = without_end(calls_of(model))
    job, tensors = _job_of(calls, data.num_node_features)
    _check_edges(data)
    with tempfile.TemporaryDirectory(prefix="trainerd-predict-") as name:
        folder = Path(name)
        weights = folder / "weights.safetensors"
        save_safetensors(weights, tensors)
        job["dataset"]["path"] = str(from_pyg(data, folder / "data", predict_only=True))
        whole = {"name": "predict-pyg", **job, "workers": {"count": workers}, "output": {"dir": str(folder / "out")}}
        result = predict_here(str(weights), whole, settings_of(set), program, timeout)
        logits = torch.from_numpy(result.logits())
        return logits if end is None else end(logits)
