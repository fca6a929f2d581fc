"""A model of PyTorch Geometric as a job's [model] and weights, and its predictions by `trainerd --predict`.

Layers of one kind, then plain linear ones, with norm, activation and dropout between them, are a kind of trainerd's models. Others are a
vertex program (module_program.py). What has no counterpart is refused by its name in the model.
"""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .arrays import Array, np, save_safetensors
from .data import from_pyg
from .errors import UsageError
from .module_calls import IGNORED, Call, Join, Tensors, calls_of, expect, mlp_parts, one_width, refuse, tensors_of
from .module_program import job_of_calls
from .prediction import predict_here
from .tensors import adjacent_edges, array_of
from .toml_text import settings_of

NORM_EPS = 1e-5  # of PyTorch, and of trainerd
ATTENTIONS = {"GATConv": "gat", "GATv2Conv": "gatv2", "TransformerConv": "transformer"}


@dataclass
class Layer:
    """A layer by its keys of [model], its input's and output's columns, and its tensors by their names in trainerd."""

    name: str
    kind: str
    f_in: int
    f_out: int
    tensors: Tensors
    keys: dict[str, Any] = field(default_factory=dict)
    heads: int = 1
    adds_loops: bool | None = None  # None: the kind does not
    weighs: bool = False  # it is called with the edges' weights, if there are some


@dataclass
class Stack:
    """Layers, and what comes between them."""

    layers: list[Layer]
    norms: list[Any]  # modules, or None, by layer
    activations: list[str]
    jump: str = "none"


def _with(tensors: Tensors, **missing: tuple[int, ...]) -> Tensors:
    """Zeros for tensors that a module may lack; "__" is the dot in their names."""
    zeros = {key.replace("__", "."): np.zeros(shape, np.float32) for key, shape in missing.items()}
    return {**zeros, **tensors}


# --- layers ---


def _gcn(name: str, conv: Any) -> Layer:
    expect(name, conv, improved=False, normalize=True, aggr="add")
    f_in, f_out = conv.in_channels, conv.out_channels
    return Layer(name, "gcn", f_in, f_out, _with(tensors_of(name, conv), bias=(f_out,)), adds_loops=bool(conv.add_self_loops), weighs=True)


def _sage(name: str, conv: Any) -> Layer:
    expect(name, conv, normalize=False, project=False)
    aggregator = {"add": "sum"}.get(str(conv.aggr), str(conv.aggr))
    if aggregator not in ("mean", "max", "sum"):
        refuse(name, conv, f"aggr is {conv.aggr!r}, expected 'mean', 'max' or 'sum'")
    f_in, f_out = one_width(name, conv), conv.out_channels
    return Layer(name, "sage", f_in, f_out, _with(tensors_of(name, conv), lin_l__bias=(f_out,), lin_r__weight=(f_out, f_in)),
                 {"aggregator": aggregator})


def _normed(linear: Tensors, norm: Any) -> Tensors:
    """A linear map with the batch norm behind it, which is linear, too, in evaluation."""
    inner = getattr(norm, "module", norm)
    of_norm = {key: array_of(value).astype(np.float64) for key, value in inner.state_dict().items()}
    scale = of_norm.get("weight", 1.0) / np.sqrt(of_norm["running_var"] + inner.eps)
    bias = (linear["bias"] - of_norm["running_mean"]) * scale + of_norm.get("bias", 0.0)
    return {"weight": (linear["weight"] * scale[:, None]).astype(np.float32), "bias": bias.astype(np.float32)}


def _gin(name: str, conv: Any) -> Layer:
    """Its nn is Linear, ReLU, Linear, with a batch norm after the first one if any."""
    parts = [part for _, part in mlp_parts(f"{name}.nn", conv.nn) if type(part).__name__ not in IGNORED]
    kinds = [type(part).__name__ for part in parts]
    has_norm = kinds[1:2] in (["BatchNorm"], ["BatchNorm1d"]) and getattr(parts[1], "module", parts[1]).running_mean is not None
    if kinds[:1] + kinds[1 + has_norm:] != ["Linear", "ReLU", "Linear"]:
        refuse(f"{name}.nn", conv.nn, "expected Linear, ReLU, Linear, with a batch norm after the first one if any")
    expect(name, conv, aggr="add")
    first, second = (_with(tensors_of(name, part), bias=(part.weight.shape[0],)) for part in (parts[0], parts[-1]))
    first = _normed(first, parts[1]) if has_norm else first
    tensors = {"eps": np.asarray(array_of(conv.eps), np.float32).reshape(1)}
    tensors |= {f"nn.0.{key}": value for key, value in first.items()} | {f"nn.2.{key}": value for key, value in second.items()}
    return Layer(name, "gin", first["weight"].shape[1], second["weight"].shape[0], tensors)


def _attention(name: str, conv: Any) -> Layer:
    kind = ATTENTIONS[type(conv).__name__]
    expect(name, conv, negative_slope=0.2, edge_dim=None, residual=False, share_weights=False, beta=False, root_weight=True)
    f_in, width = one_width(name, conv), conv.out_channels * (conv.heads if conv.concat else 1)
    rows = conv.out_channels * conv.heads
    tensors = {key.replace("lin_src.", "lin."): value for key, value in tensors_of(name, conv).items()}
    if any(key.startswith("lin_dst.") for key in tensors):
        refuse(name, conv, f"in_channels is {conv.in_channels!r}, expected one number")
    zeros: dict[str, tuple[int, ...]] = {} if kind == "transformer" else {"bias": (width,)}
    if kind == "gatv2":
        zeros |= {"lin_l__bias": (rows,), "lin_r__bias": (rows,)}
    if kind == "transformer":
        zeros = {f"lin_{part}__bias": (rows,) for part in ("key", "query", "value")} | {"lin_skip__bias": (width,)}
    loops = None if kind == "transformer" else bool(conv.add_self_loops)
    keys = {"concat": bool(conv.concat) or conv.heads == 1}
    return Layer(name, kind, f_in, width, _with(tensors, **zeros), keys, int(conv.heads), loops)


def _linear(name: str, linear: Any) -> Layer:
    tensors = tensors_of(name, linear)
    f_out, f_in = tensors["weight"].shape
    return Layer(name, "linear", f_in, f_out, _with(tensors, bias=(f_out,)))


LAYERS: dict[str, Callable[[str, Any], Layer]] = {
    "GCNConv": _gcn, "SAGEConv": _sage, "GINConv": _gin, "GATConv": _attention, "GATv2Conv": _attention, "TransformerConv": _attention,
    "Linear": _linear}
ENDS = ("LogSoftmax", "Softmax")
NORMS = ("BatchNorm", "BatchNorm1d", "LayerNorm")


def _activation(name: str, module: Any) -> str | None:
    """A word of model.activation; None: the module is no activation."""
    kind = type(module).__name__
    if kind == "ELU":
        expect(name, module, alpha=1.0)
    if kind == "LeakyReLU":
        expect(name, module, negative_slope=0.01)
    if kind == "GELU":
        expect(name, module, approximate="none")
    return {"ReLU": "relu", "ELU": "elu", "LeakyReLU": "leaky_relu", "GELU": "gelu"}.get(kind)


def _norm_tensors(name: str, norm: Any) -> tuple[str, Tensors]:
    """A word of model.norm, and the norm's tensors."""
    kind = type(norm).__name__
    batch = kind != "LayerNorm"
    inner = getattr(norm, "module", norm)
    if not batch and getattr(norm, "mode", "node") != "node":
        refuse(name, norm, f"mode is {norm.mode!r}, over all nodes together; expected 'node'")
    expect(name, inner, eps=NORM_EPS)
    tensors = tensors_of(name, inner)
    if batch and "running_mean" not in tensors:
        refuse(name, norm, "it has no running statistics (track_running_stats)")
    if not batch and len(tuple(getattr(norm, "normalized_shape", (1,)))) != 1:
        refuse(name, norm, f"normalized_shape is {norm.normalized_shape!r}, expected one number")
    n = tensors["running_mean"].shape if batch else tensors["weight"].shape if "weight" in tensors else None
    if n is None:
        refuse(name, norm, "it has no weights (elementwise_affine, affine)")
    full = {"weight": np.ones(n, np.float32), "bias": np.zeros(n, np.float32), **tensors}
    return ("batch", {f"module.{key}": value for key, value in full.items()}) if batch else ("layer", full)


# --- models ---


def _stack_of(calls: list[Call]) -> Stack:
    stack, last = Stack([], [], []), calls[0].takes[0]
    for call in calls:
        name, part = call.name, call.module
        if isinstance(part, Join):
            if part.mode not in ("cat", "max"):
                refuse(name, part, "a sum of values is of no stack")
            stack.jump, last = {"cat": "concat"}.get(part.mode, part.mode), call.gives
            continue
        if call.takes != [last]:
            refuse(name, part, f"it takes {' and '.join(call.takes)}, expected the output of the module before it")
        last = call.gives
        kind, word = type(part).__name__, _activation(name, part)
        if kind in LAYERS:
            expect(name, part, flow="source_to_target")
            layer = LAYERS[kind](name, part)
            layer.weighs = layer.weighs and call.weighs
            stack.layers.append(layer)
            stack.norms.append(None)
            stack.activations.append("none")
        elif kind in IGNORED:
            continue
        elif not stack.layers:
            refuse(name, part, f"expected one of {', '.join(LAYERS)} before it")
        elif kind in NORMS and stack.norms[-1] is None and stack.activations[-1] == "none":
            stack.norms[-1] = (name, part)
        elif word is not None and stack.activations[-1] == "none":
            stack.activations[-1] = word
        else:
            refuse(name, part, f"expected one of {', '.join(LAYERS)}, or after each of them a norm and then an activation")
    return stack


def _same(stack: Stack, what: str, values: list[Any], names: list[str]) -> Any:
    """The value that all share."""
    for name, value in zip(names, values):
        if value != values[0]:
            raise UsageError(f"model: {what} is {value!r} at '{name}' and {values[0]!r} at '{names[0]}', expected the same")
    return values[0] if values else None


def _padded_gin(convs: list[Layer], hidden: int) -> None:
    """trainerd's MLPs have `hidden` channels inside: zeros fill up narrower ones, which changes no sum."""
    for conv in convs:
        inner = conv.tensors["nn.0.weight"].shape[0]
        if inner > hidden:
            raise UsageError(f"model: '{conv.name}.nn' has {inner} channels inside, expected at most the {hidden} of the hidden layers")
        rows = ((0, hidden - inner), (0, 0))
        conv.tensors["nn.0.weight"] = np.pad(conv.tensors["nn.0.weight"], rows)
        conv.tensors["nn.0.bias"] = np.pad(conv.tensors["nn.0.bias"], rows[:1])
        conv.tensors["nn.2.weight"] = np.pad(conv.tensors["nn.2.weight"], rows[::-1])


def _heads_of(convs: list[Layer], n_hidden: int) -> dict[str, int]:
    """Hidden layers concatenate their heads, the last one averages them."""
    for i, conv in enumerate(convs):
        if i < n_hidden and not conv.keys["concat"]:
            raise UsageError(f"model: '{conv.name}' averages its heads, expected concat=True before the last layer")
        if i >= n_hidden and conv.heads > 1 and conv.keys["concat"]:
            raise UsageError(f"model: '{conv.name}' concatenates its heads, expected concat=False in the last layer")
    hidden = convs[:n_hidden]
    heads = {conv.heads for conv in hidden}
    if len(heads) > 1:
        raise UsageError(f"model: hidden layers have {' and '.join(map(str, sorted(heads)))} heads, expected the same number")
    return {**({"heads": hidden[0].heads} if hidden else {}), **({"out_heads": convs[-1].heads} if n_hidden < len(convs) else {})}


def job_of_module(model: Any, columns: int = 0) -> tuple[dict[str, dict[str, Any]], Tensors]:
    """The [model] and [dataset] sections of a job, and the weights by trainerd's names, of a model of PyTorch Geometric: of a kind of
    trainerd's models, else as a vertex program. columns: of the input.

    Raises UsageError that names the module that has no counterpart.
    """
    calls, _ = without_end(calls_of(model))
    return _job_of(calls, columns)


def without_end(calls: list[Call]) -> tuple[list[Call], Any]:
    """The calls up to the logits, and the softmax behind them; None: there is none."""
    last = [call for call in calls if type(call.module).__name__ not in IGNORED][-1:]
    if last and type(last[0].module).__name__ in ENDS and last[0].module.dim in (1, -1):
        return calls[:calls.index(last[0])], last[0].module
    return calls, None


def _job_of(calls: list[Call], columns: int) -> tuple[dict[str, dict[str, Any]], Tensors]:
    if not calls:
        raise UsageError("model: it has no modules before its softmax")
    try:
        return _job_of_stack(_stack_of(calls))
    except UsageError:
        return job_of_calls(calls, columns)


def _job_of_stack(stack: Stack) -> tuple[dict[str, dict[str, Any]], Tensors]:
    layers = stack.layers[:-1] if stack.jump != "none" else stack.layers
    convs = [layer for layer in layers if layer.kind != "linear"]
    if not convs or any(layer.kind == "linear" for layer in layers[:len(convs)]):
        raise UsageError(f"model: expected layers of {', '.join(sorted(set(LAYERS) - {'Linear'}))}, then linear ones if any")
    n_hidden = len(layers) if stack.jump != "none" else len(layers) - 1
    names = [layer.name for layer in layers]
    _same(stack, "the kind", [conv.kind for conv in convs], names)
    loops = _same(stack, "add_self_loops", [conv.adds_loops for conv in convs], names)
    weighs = _same(stack, "the use of edge weights", [conv.weighs for conv in convs], names)
    heads = _heads_of(convs, n_hidden) if convs[0].kind in ATTENTIONS.values() else {}
    hidden = _same(stack, "the width", [layer.f_out // layer.heads for layer in layers[:n_hidden]], names)
    section = {"kind": convs[0].kind, "layers": len(layers), "linear_layers": len(layers) - len(convs), "jumping_knowledge": stack.jump, **heads}
    section["activation"] = _same(stack, "the activation", stack.activations[:n_hidden], names) or "none"
    if stack.activations[n_hidden:] != ["none"] * (len(stack.layers) - n_hidden) or any(stack.norms[n_hidden:]):
        raise UsageError(f"model: an activation or norm follows '{stack.layers[-1].name}', the last layer: expected nothing, for its logits")
    tensors: Tensors = {}
    if convs[0].kind == "gin":
        hidden = hidden or convs[0].tensors["nn.0.weight"].shape[0]
        _padded_gin(convs, hidden)
    norm_words = []
    for i, norm in enumerate(stack.norms[:n_hidden]):
        word, of_norm = _norm_tensors(*norm) if norm is not None else ("none", {})
        norm_words.append(word)
        tensors |= {f"norms.{i}.{key}": value for key, value in of_norm.items()}
    section["norm"] = _same(stack, "the norm", norm_words, names) or "none"
    section |= {"hidden": hidden} if hidden else {}
    section |= {key: _same(stack, key, [conv.keys[key] for conv in convs], names) for key in convs[0].keys if key != "concat"}
    for i, layer in enumerate(layers):
        prefix = f"convs.{i}" if i < len(convs) else f"lins.{i - len(convs)}"
        tensors |= {f"{prefix}.{key}": value for key, value in layer.tensors.items()}
    if stack.jump != "none":
        tensors |= {f"lin.{key}": value for key, value in stack.layers[-1].tensors.items()}
    dataset = {"undirected": "no", "self_loops": "no" if loops is False else "auto"}
    dataset |= {"edge_features": "no"} if heads else {"edge_weights": "no"} if convs[0].kind == "gcn" and not weighs else {}
    return {"model": section, "dataset": dataset}, tensors


def _check_edges(data: Any, loops: str) -> None:
    """Edges that a data folder cannot have as the model reads them."""
    edges = adjacent_edges(data.adj_t)[0] if getattr(data, "edge_index", None) is None else array_of(data.edge_index)
    n_repeat = edges.shape[1] - len(np.unique(edges[0].astype(np.int64) * (int(edges.max(initial=0)) + 1) + edges[1]))
    if n_repeat > 0:
        raise UsageError(f"data: {n_repeat} edges are there twice, and a graph has each once: expected data.coalesce()")
    if loops == "no" and bool((edges[0] == edges[1]).any()):
        raise UsageError("data: the graph has self loops and the model's layers have add_self_loops=False: expected one or the other")


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
    _check_edges(data, job["dataset"]["self_loops"])
    with tempfile.TemporaryDirectory(prefix="trainerd-predict-") as name:
        folder = Path(name)
        weights = folder / "weights.safetensors"
        save_safetensors(weights, tensors)
        job["dataset"]["path"] = str(from_pyg(data, folder / "data", predict_only=True))
        whole = {"name": "predict-pyg", **job, "workers": {"count": workers}, "output": {"dir": str(folder / "out")}}
        result = predict_here(str(weights), whole, settings_of(set), program, timeout)
        logits = torch.from_numpy(result.logits())
        return logits if end is None else end(logits)
