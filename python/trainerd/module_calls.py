"""The calls of a model of PyTorch Geometric in their order, and what is read of a module. Classes are recognised by name, so that PyTorch need
not be imported here."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .arrays import Array, np
from .errors import UsageError
from .tensors import array_of

Tensors = dict[str, Array]
IGNORED = ("Dropout", "Identity")  # a prediction drops nothing


@dataclass(frozen=True)
class Join:
    """Several values as one: "cat" or "max", as JumpingKnowledge, or "add"."""

    mode: str


@dataclass(frozen=True)
class Dropout:
    """As torch.nn.Dropout."""

    p: float

    def state_dict(self) -> Tensors:
        return {}


@dataclass
class Call:
    """A module, by the names of the rows of nodes that it takes and gives."""

    name: str
    module: Any
    takes: list[str]
    gives: str
    weighs: bool = False  # it is called with the edges' weights, if there are some


def refuse(name: str, module: Any, why: str) -> NoReturn:
    raise UsageError(f"model: '{name}' ({type(module).__name__}): {why}")


def expect(name: str, module: Any, **wanted: Any) -> None:
    for key, value in wanted.items():
        found = getattr(module, key, value)
        if found != value:
            refuse(name, module, f"{key} is {found!r}, expected {value!r}")


def tensors_of(name: str, module: Any) -> Tensors:
    tensors = {}
    for key, value in module.state_dict().items():
        if hasattr(value, "materialize"):
            refuse(name, module, f"{key} has no shape yet, expected a model that has been called once")
        if not key.endswith("num_batches_tracked"):
            tensors[key] = array_of(value).astype(np.float32)
    return tensors


def one_width(name: str, conv: Any) -> int:
    found = conv.in_channels
    if isinstance(found, (tuple, list)):
        if len(set(found)) != 1:
            refuse(name, conv, f"in_channels is {found!r}, expected one number")
        return int(found[0])
    return int(found)


def mlp_parts(name: str, nn: Any) -> list[tuple[str, Any]]:
    """The modules of a torch.nn.Sequential, or of PyTorch Geometric's MLP, in the order of their calls, or the only one, with their names."""
    if not hasattr(nn, "lins"):
        parts = [(f"{name}.{key}", part) for key, part in nn.named_children()] or [(name, nn)]
    else:
        parts = []
        for i, linear in enumerate(nn.lins):
            parts.append((f"{name}.lins.{i}", linear))
            if i < len(nn.lins) - 1 or not nn.plain_last:
                between = [*((f"{name}.norms.{i}", norm) for norm in nn.norms[i:i + 1]), *([(f"{name}.act", nn.act)] if nn.act is not None else [])]
                parts += between[::-1] if nn.act_first else between
                parts += [(f"{name}.dropout", Dropout(nn.dropout[i]))] if nn.dropout[i] > 0 else []
    return [(key, part) for key, part in parts if type(part).__name__ != "Identity"]


def _chain(parts: Sequence[tuple[str, Any]], weighs: bool, first: str = "x") -> list[Call]:
    """Modules that take each other's outputs."""
    names = [first, *(f"{first}.{i}" for i in range(len(parts)))]
    return [Call(name, part, [takes], gives, weighs) for (name, part), takes, gives in zip(parts, names, names[1:])]


def _described(model: Any) -> list[Call]:
    """Of torch_geometric.nn.Sequential: "x, edge_index -> x1"."""
    if hasattr(model, "_module_descs"):
        sides = [[[one.strip() for one in side.split(",")] for side in text.split("->")] for text in model._module_descs]
        described = [(name, takes, gives) for name, (takes, gives) in zip(model._module_names, sides)]
    else:
        described = [(child.name, child.param_names, child.return_names) for child in model._children]
    calls, made = [], {described[0][1][0]}
    for name, takes, gives in described:
        part = getattr(model, name)
        of_nodes = [one for one in takes if one in made]
        if takes[0] not in made or len(gives) != 1:
            refuse(name, part, f"it is called as '{', '.join(takes)} -> {', '.join(gives)}', expected rows of nodes first, and one output")
        made.add(gives[0])
        calls.append(Call(name, part, of_nodes, gives[0], len(takes) - len(of_nodes) > 1))
    return calls


def _basic(model: Any) -> list[Call]:
    """torch_geometric.nn.GCN, GraphSAGE, GIN, GAT, PNA, EdgeCNN: convs, norms, act, and with jk lin."""
    parts: list[tuple[str, Any]] = []
    ends = []
    jump, lin = getattr(model, "jk_mode", None), getattr(model, "lin", None)
    norms = list(model.norms) if model.norms is not None else []
    for i, conv in enumerate(model.convs):
        parts.append((f"convs.{i}", conv))
        if i < len(model.convs) - 1 or jump is not None:
            between = [(f"norms.{i}", norms[i])] if i < len(norms) else []
            if model.act is not None:
                between.insert(0 if model.act_first else 1, ("act", model.act))
            between += [("dropout", model.dropout)] if hasattr(model.dropout, "p") else []
            parts += between
        ends.append(len(parts))
    calls = _chain(parts, True)
    if jump not in (None, "last"):
        if jump not in ("cat", "max"):
            raise UsageError(f"model: jk is {jump!r}, expected 'cat', 'max' or 'last'")
        calls.append(Call("jk", Join(jump), [calls[end - 1].gives for end in ends], "x.jk"))
    return calls + ([Call("lin", lin, [calls[-1].gives], "x.lin")] if jump is not None else [])


def _flat(call: Call) -> list[Call]:
    """A model inside, or a torch.nn.Sequential or MLP, is its modules."""
    module, kind = call.module, type(call.module).__name__
    if len(call.takes) != 1 or not (is_basic(module) or kind in ("Sequential", "MLP")):
        return [call]
    if is_basic(module):
        inner = _basic(module)
    else:
        inner = _chain([(name.removeprefix("."), part) for name, part in mlp_parts("", module)], call.weighs)
    names = {inner[0].takes[0]: call.takes[0]}  # its input is the call's; its output, too, which may have an input's name
    flat = []
    for i, one in enumerate(inner):
        takes = [names[name] for name in one.takes]
        names[one.gives] = call.gives if i == len(inner) - 1 else f"{call.gives}.{call.name}.{one.gives}"
        flat += _flat(Call(f"{call.name}.{one.name}", one.module, takes, names[one.gives], one.weighs and call.weighs))
    return flat


def is_basic(model: Any) -> bool:
    return hasattr(model, "convs") and hasattr(model, "jk_mode")


def calls_of(model: Any) -> list[Call]:
    """Modules in the order of their calls."""
    if is_basic(model):
        return _basic(model)
    if isinstance(model, Sequence):
        calls = _chain([(str(i), part) for i, part in enumerate(model)], True)
    elif type(model).__name__ not in ("Sequential", "MLP", "Module") and type(model).__module__.startswith(("torch.nn.", "torch_geometric.nn.")):
        calls = [Call(type(model).__name__, model, ["x"], "x.0", True)]  # one layer alone
    elif type(model).__name__ != "Sequential":
        from .module_trace import calls_of_forward
        calls = calls_of_forward(model)
    elif hasattr(model, "_module_descs") or hasattr(model, "_children"):
        calls = _described(model)
    else:
        calls = _chain(list(model.named_children()), False)
    flat = [one for call in calls for one in _flat(call)]
    if not flat:
        raise UsageError("model: it has no modules")
    return flat
