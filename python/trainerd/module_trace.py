"""The calls of a model of one's own, as torch.fx reads them from its forward: modules, and functions of PyTorch in their place."""
from __future__ import annotations

import operator
from typing import Any, NoReturn

from .errors import UsageError
from .module_calls import Call, Join

import torch
from torch import fx, nn
from torch.nn import functional as F

CONTAINERS = ("Sequential",)  # whose modules are called one by one; others of PyTorch and PyTorch Geometric are calls
GRAPH = ("edge_index", "adj_t", "edge_weight", "edge_attr")  # of torch_geometric.data.Data


def _dropout(p: float = 0.5, training: bool = True, inplace: bool = False) -> nn.Module:
    return nn.Dropout(p)  # which a prediction leaves out


# Functions and methods of tensors, as the modules that they are; their arguments follow the rows.
MODULES: dict[Any, Any] = {
    F.relu: nn.ReLU, F.elu: nn.ELU, F.leaky_relu: nn.LeakyReLU, F.gelu: nn.GELU, F.silu: nn.SiLU, F.softplus: nn.Softplus, F.relu6: nn.ReLU6,
    F.sigmoid: nn.Sigmoid, F.tanh: nn.Tanh, F.dropout: _dropout, F.log_softmax: nn.LogSoftmax, F.softmax: nn.Softmax, torch.relu: nn.ReLU,
    torch.sigmoid: nn.Sigmoid, torch.tanh: nn.Tanh, torch.log_softmax: nn.LogSoftmax, torch.softmax: nn.Softmax, "relu": nn.ReLU,
    "relu_": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "log_softmax": nn.LogSoftmax, "softmax": nn.Softmax}
SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")
JOINS = (torch.cat, torch.concat)
UNUSED = ("_stacklevel", "dtype")  # of functions


class _Tracer(fx.Tracer):  # type: ignore[misc]
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return m.__module__.startswith(("torch.nn", "torch_geometric.nn")) and type(m).__name__ not in CONTAINERS


def calls_of_forward(model: Any) -> list[Call]:
    """Modules in the order in which forward calls them. Its arguments are x and the graph, or a Data with them."""
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        graph = _Tracer().trace(model)
    except Exception as error:  # forward is the caller's code
        raise UsageError(f"model: the calls of '{type(model).__name__}' cannot be read from its forward ({error}): expected a list of modules in "
                         "the order of their calls; or write a job, since trainerd --predict takes any names (docs/predict.md)") from error
    finally:
        for part, mode in modes.items():
            part.training = mode
    calls: list[Call] = []
    reader = _Reader(dict(model.named_modules()))
    for node in graph.nodes:
        if node.op == "placeholder":
            reader.take_argument(node)
        elif node.target is getattr:
            reader.take_part(node)
        elif node.op == "output":
            calls.append(Call("output", nn.Identity(), [reader.row_of(node, node.args[0])], "output"))
        else:
            calls.append(reader.call_of(node))
    return calls


def _refuse(node: Any, why: str) -> NoReturn:
    raise UsageError(f"model: '{node.name}' ({getattr(node.target, '__name__', node.target)}) in its forward: {why}")


class _Reader:
    """Values of a forward by their places: rows of nodes, by their names, and the graph."""

    def __init__(self, modules: dict[str, Any]) -> None:
        self.modules = modules
        self.rows: dict[Any, str] = {}
        self.graph: set[Any] = set()

    def take_argument(self, node: Any) -> None:
        if self.rows:
            self.graph.add(node)
        else:
            self.rows[node] = node.name

    def take_part(self, node: Any) -> None:
        """data.x, data.edge_index"""
        of, name = node.args
        if name in GRAPH and of in self.rows:
            self.graph.add(node)
        elif name == "x":
            self.rows[node] = self.row_of(node, of)
        else:
            _refuse(node, f"'{name}' of the data, expected x, {', '.join(GRAPH)}")

    def row_of(self, node: Any, value: Any) -> str:
        if not isinstance(value, fx.Node) or value not in self.rows:
            _refuse(node, f"expected rows of nodes, and not {value}")
        return self.rows[value]

    def call_of(self, node: Any) -> Call:
        given = [*node.args, *node.kwargs.values()]
        first = given[0] if given else None
        if not isinstance(first, (list, tuple)):  # else they are joined
            self.row_of(node, first)
        of_graph = [one for one in given if isinstance(one, fx.Node) and one in self.graph]
        takes = [self.row_of(node, one) for one in given if isinstance(one, fx.Node) and one not in self.graph]
        made = Call(str(node.target) if node.op == "call_module" else node.name, self._module_of(node, given), takes, node.name, len(of_graph) > 1)
        if isinstance(first, (list, tuple)):
            made.takes = [self.row_of(node, one) for one in first]
        self.rows[node] = node.name
        return made

    def _module_of(self, node: Any, given: list[Any]) -> Any:
        if node.op == "call_module":
            module = self.modules[node.target]
            return Join(module.mode) if type(module).__name__ == "JumpingKnowledge" else module
        rest = {key: value for key, value in node.kwargs.items() if key not in UNUSED}
        if node.target in SUMS and len(given) == 2 and all(isinstance(one, fx.Node) for one in given):
            return Join("add")
        if node.target in JOINS and [*node.args[1:], *rest.values()] in ([1], [-1]):
            return Join("cat")
        make = MODULES.get(node.target)
        if make is None or any(isinstance(one, fx.Node) for one in given[1:]):
            _refuse(node, "no layer, norm or activation is known for it")
        return make(*node.args[1:], **rest)
