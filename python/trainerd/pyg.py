"""Trained weights in PyTorch Geometric: into a module of your own, or as the model of any job.

    model = GCN(1433, 16, 2, 7)
    load_into_pyg(model, "runs/cora")                    names and shapes must agree
    model = pyg_model("runs/cora")                       or: the model that the job trained
    logits = model(*pyg_inputs("runs/cora", "data/cora"))

Nodes without features have embeddings: x is a sparse tensor, so that no dense matrix of nodes × nodes is made.
"""
from __future__ import annotations

import difflib
import os
from typing import Any, TypeVar

from .arrays import Array
from .errors import DataError, MissingInput
from .module_training import load_back
from .net import make_net, read_inputs
from .results import Result

import torch  # after .net, which says how to get it

SHOWN_MOST = 3
Folder = str | os.PathLike[str]
Module = TypeVar("Module")


def _names(names: list[str], known: list[str]) -> str:
    """Some names, each with the nearest name of the other side."""
    shown = []
    for name in names[:SHOWN_MOST]:
        near = difflib.get_close_matches(name, known, 1, 0.5)
        shown.append(f"'{name}'" + (f" (nearest: '{near[0]}')" if near else ""))
    return ", ".join(shown) + (f" and {len(names) - SHOWN_MOST} more" if len(names) > SHOWN_MOST else "")


def _fitted(module: Any, weights: dict[str, Array], path: str) -> dict[str, Any]:
    """The weights as tensors for this module's state_dict; an embedding's rows are nodes there, and columns here."""
    own = module.state_dict(keep_vars=True)
    counters = {name: values for name, values in own.items() if name.endswith(".num_batches_tracked")}  # PyTorch's alone, and not used
    missing, unexpected = sorted(set(own) - set(weights) - set(counters)), sorted(set(weights) - set(own))
    if missing or unexpected:
        sentences = ([f"it lacks {_names(missing, unexpected)}"] if missing else []) + \
            ([f"the module has no {_names(unexpected, missing)}"] if unexpected else [])
        raise DataError(f"'{path}' does not fit the module: {'; '.join(sentences)}")
    embeddings = {f"{name}.weight" for name, part in module.named_modules() if isinstance(part, torch.nn.Embedding)}
    state = dict(counters)
    for name, values in weights.items():
        tensor = torch.from_numpy(values)
        if name in embeddings:
            tensor = tensor.t().contiguous()
        lazy = isinstance(own[name], torch.nn.parameter.UninitializedTensorMixin)
        if not lazy and tensor.shape != own[name].shape:
            raise DataError(f"'{path}' does not fit the module: '{name}' has shape {list(tensor.shape)}, expected {list(own[name].shape)}")
        state[name] = tensor
    return state


def load_into_pyg(module: Module, run: Folder | Result, weights: str = "best.safetensors") -> Module:
    """Load a run's weights into a torch.nn.Module, by name, and return it.

    Names and shapes must agree, unless the run is a training of this module by `train(data, model=module)`. An `nn.Embedding` is
    transposed, since trainerd has a column for each node.
    `weights`: "model.safetensors" has those of the last epoch.
    """
    result = run if isinstance(run, Result) else Result(run)
    text, columns = result.json.get("job", {}).get("model", {}).get("program"), result.json.get("dataset", {}).get("features", 0)
    if text and load_back(module, columns, result.weights(weights), text):
        return module
    state = _fitted(module, result.weights(weights), str(result.folder / weights))
    module.load_state_dict(state, strict=True)  # type: ignore[attr-defined]
    return module


def pyg_model(run: Folder | Result, weights: str = "best.safetensors") -> Any:
    """The model that a job trained, as a torch.nn.Module with its weights, in eval mode: of PyTorch Geometric's layers, or where
    it is a vertex program of its text."""
    result = run if isinstance(run, Result) else Result(run)
    job, dataset = result.json["job"], result.json["dataset"]
    net: Any = make_net(job, dataset, "embedding.weight" in result.weights(weights))
    return load_into_pyg(net, result, weights).eval()


def pyg_inputs(run: Folder | Result, data: Folder) -> tuple[Any, Any, Any]:
    """The inputs of `pyg_model(run)`, from an npy folder with edges.npy: x, edge_index, and types, weights or
    features of edges, or None."""
    result = run if isinstance(run, Result) else Result(run)
    data = os.path.expanduser(data)
    if not os.path.exists(os.path.join(data, "edges.npy")):
        raise MissingInput(f"'{os.path.join(data, 'edges.npy')}' is not there, expected an npy folder with it")
    n_node, n_class = result.logits().shape
    inputs: tuple[Any, Any, Any] = read_inputs(data, result.json["job"], (n_node, n_class))
    return inputs


def logits_difference(run: Folder | Result, data: Folder) -> tuple[int, float]:
    """The number of the model's tensors, and the largest difference of its logits from the job's, relative to the
    largest logit."""
    result = run if isinstance(run, Result) else Result(run)
    held = sum(result.json.get("dataset", {}).get(f"{split}_edges", 0) for split in ("valid", "test"))
    if held:
        raise DataError(f"'{result.folder}' held {held} edges out of the graph, which its logits are without: expected a training that holds none out")
    expected = torch.from_numpy(result.logits())
    model = pyg_model(result)
    with torch.no_grad():
        logits = model(*pyg_inputs(result, data))
    return len(model.state_dict()), float((logits - expected).abs().max() / expected.abs().max())
