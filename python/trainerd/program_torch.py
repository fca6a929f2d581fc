"""A vertex program in PyTorch: the text, which is Python, runs on arrays of all nodes and all edges.

`v` stands for all nodes and `e` for all edges, so that a sum over in-edges takes one array of edges and adds its rows up by
destination. It shares no code with trainerd's compiler, and is what tests compare it with. It has no type annotations, since
PyTorch's types are Any for the checker.
"""
from __future__ import annotations

import ast
import math

from .errors import DataError, MissingInput

try:
    import torch
except ImportError as error:
    raise MissingInput(f"PyTorch cannot be imported ({error}): pip install torch") from error

F = torch.nn.functional


def aligned(a, b):
    """Two operands with dimensions that torch repeats as programs do: a number a row or a head over columns, and rows
    without heads over the heads of a weight."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a, b
    for x, y, turned in ((a, b, False), (b, a, True)):
        if isinstance(x, Rows) and x.dim() == 2 and isinstance(y, Weight) and y.dim() > 1:
            x = x.unsqueeze(1)
        elif isinstance(x, Rows) and isinstance(y, Rows) and x.dim() == 2 and y.dim() == 3:
            x = x.unsqueeze(2 if x.shape[1] == 1 else 1)
        else:
            continue
        return (y, x) if turned else (x, y)
    return a, b


def plain(x):
    return x.as_subclass(torch.Tensor) if isinstance(x, torch.Tensor) else x


def kind_of(*operands):
    """Rows where one operand is, else a weight."""
    return Rows if any(isinstance(x, Rows) for x in operands) else Weight


def combined(function, a, b):
    x, y = aligned(a, b)
    return function(plain(x), plain(y)).as_subclass(kind_of(a, b))


def binary(name):
    return lambda self, other: combined(getattr(torch.Tensor, name), self, other)


class Value(torch.Tensor):
    """A tensor with the methods of programs."""

    __add__, __radd__, __sub__, __rsub__ = binary("__add__"), binary("__radd__"), binary("__sub__"), binary("__rsub__")
    __mul__, __rmul__ = binary("__mul__"), binary("__rmul__")
    __truediv__, __rtruediv__ = binary("__truediv__"), binary("__rtruediv__")

    @property
    def width(self):
        return math.prod(self.shape[1:])

    def heads(self, n):
        return self.reshape(len(self), n, -1)

    def flat(self):
        return self.reshape(len(self), -1)

    def mean_heads(self):
        return self.mean(1)

    def sum_heads(self):
        return self.sum(1)

    def __matmul__(self, other):
        if isinstance(self, Weight):
            return torch.tensordot(plain(self), plain(other), 1).as_subclass(Weight)
        rows = torch.einsum("nhc,hcd->nhd", plain(self), plain(other)) if self.dim() == 3 else plain(self) @ plain(other)
        return rows.as_subclass(Rows)


class Weight(Value):
    pass


class Rows(Value):
    def __getitem__(self, at):
        """x[:, a:b]: columns, with heads those of each head."""
        if isinstance(at, tuple) and self.dim() == 3:
            at = (at[0], slice(None), at[1])
        return plain(self)[at].as_subclass(Rows)


class End:
    """e.src, e.dst: the nodes at edges' ends."""

    def __init__(self, nodes, numbers):
        self._nodes, self._numbers = nodes, numbers

    def __getattr__(self, name):
        return getattr(self._nodes, name)[self._numbers()].as_subclass(Rows)


class Relation:
    """e.relation; compared with a number it leaves this relation's edges."""

    def __init__(self, edges):
        self._edges = edges

    def __eq__(self, number):
        self._edges.chosen = self._edges.graph.edge_type == number
        return True

    def __hash__(self):
        return id(self)


class Edges:
    """e: all in-edges, or those of a relation."""

    def __init__(self, graph, nodes):
        self.graph = graph
        self.chosen = torch.ones(graph.edge_index.shape[1], dtype=torch.bool)
        self.src = End(nodes, lambda: graph.edge_index[0][self.chosen])
        self.dst = End(nodes, self.targets)
        self.relation = Relation(self)

    def targets(self):
        return self.graph.edge_index[1][self.chosen]

    @property
    def weight(self):
        return self.graph.edge_weight[self.chosen][:, None].as_subclass(Rows)

    @property
    def norm(self):
        source, target = self.graph.edge_index
        strength = torch.zeros(self.graph.n_node, dtype=self.graph.edge_weight.dtype).index_add(0, target, self.graph.edge_weight)
        scale = strength.clamp(min=0).pow(-0.5).nan_to_num(posinf=0.0)
        return (scale[source] * self.graph.edge_weight * scale[target])[self.chosen][:, None].as_subclass(Rows)

    @property
    def feature(self):
        return self.graph.edge_attr[self.chosen].as_subclass(Rows)


class Nodes:
    """v: all nodes."""

    def __init__(self, graph, x):
        self.__dict__.update(_graph=graph, x=x.as_subclass(Rows))

    @property
    def degree(self):
        ones = torch.ones(self._graph.edge_index.shape[1], dtype=self.x.dtype)
        return torch.zeros(self._graph.n_node, dtype=self.x.dtype).index_add(0, self._graph.edge_index[1], ones)[:, None].as_subclass(Rows)

    @property
    def in_edges(self):
        self._graph.edges = Edges(self._graph, self)
        return [self._graph.edges]


class Numbers:
    def __init__(self, numbers):
        self.__dict__.update(numbers)

    def __getattr__(self, name):
        raise DataError(f"the program reads graph.{name}, which is not given")


def entry_of(text):
    """Is the text a whole model, "model", or a "layer"?"""
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return "model" if "model" in names else "layer"


class Runtime:
    """What a text's words do, and the graph that it runs over."""

    def __init__(self, module, text, n_out, args, graph):
        self.module, self.n_out, self.drawn = module, n_out, True
        self.entry = entry_of(text)
        self.numbers = Numbers({"relations": 0, "edge_features": 0, **graph})
        self.space = {**self.words(), "graph": self.numbers}
        exec(compile(text, "program", "exec"), self.space)  # the text is the user's own
        known = self.space[self.entry].__code__
        self.args = {name: int(value) if isinstance(value, float) and value.is_integer() else value
                     for name, value in args.items() if name in known.co_varnames[:known.co_argcount]}

    def run(self, x, edge_index, edge_weight, edge_attr, edge_type):
        self.n_node, self.edge_index = len(x), edge_index
        self.edge_weight = torch.ones(edge_index.shape[1], dtype=x.dtype) if edge_weight is None else edge_weight
        self.edge_attr, self.edge_type = edge_attr, edge_type
        return plain(self.space[self.entry](Nodes(self, x), self.n_out, **self.args))

    # --- weights ---

    def weight(self, name, shape, init, trains=True):
        *path, last = name.split(".")
        module = self.module
        for part in path:
            if part not in module._modules:
                module.add_module(part, torch.nn.Module())
            module = module._modules[part]
        if last not in module._parameters:
            if not self.drawn:
                raise DataError(f"the program's weight {name} was not there in its first run")
            values = torch.empty(shape)
            init(values)
            module.register_parameter(last, torch.nn.Parameter(values, requires_grad=trains))
        if tuple(module._parameters[last].shape) != tuple(shape):
            raise DataError(f"the program's weight {name} has two shapes")
        return module._parameters[last].as_subclass(Weight)

    # --- words ---

    def reduced(self, generator, how):
        values = next(iter(generator))
        index = self.edges.targets()
        shape = (self.n_node, *values.shape[1:])
        values = plain(values)
        at = index.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
        n = torch.zeros(self.n_node, dtype=values.dtype).index_add(0, index, torch.ones(len(index), dtype=values.dtype))
        n = n.view(-1, *[1] * (values.dim() - 1)).clamp(min=1)
        if how in ("max", "min"):
            least = -math.inf if how == "max" else math.inf  # the gradient also counts where a result began
            out = torch.full(shape, least, dtype=values.dtype).scatter_reduce(0, at, values, "a" + how)
            out = torch.where(out == least, 0.0, out)
        else:
            out = torch.zeros(shape, dtype=values.dtype).index_add(0, index, values)
        if how in ("mean", "var", "std"):
            out = out / n
        if how in ("var", "std"):
            out = torch.zeros(shape, dtype=values.dtype).index_add(0, index, (values - out[index]) ** 2) / n
        if how == "std":  # as PyTorch Geometric's StdAggregation
            out = torch.where(out > 1e-5, out.clamp(min=1e-5).sqrt(), 0.0)
        return out.as_subclass(Rows)

    def softmax(self, scores):
        index = self.edges.targets()
        at = index.view(-1, *[1] * (scores.dim() - 1)).expand_as(scores)
        of_edges = plain(scores)
        most = torch.zeros((self.n_node, *of_edges.shape[1:]), dtype=of_edges.dtype).scatter_reduce(0, at, of_edges, "amax", include_self=False)
        weights = (of_edges - most.detach()[index]).exp()
        sums = torch.zeros((self.n_node, *of_edges.shape[1:]), dtype=of_edges.dtype).index_add(0, index, weights)
        return (weights / sums[index]).as_subclass(Rows)

    def words(self):
        def glorot(values):
            bound = math.sqrt(6 / sum(values.shape[-2:]))
            return values.uniform_(-bound, bound)

        def kaiming(values):
            bound = 1 / math.sqrt(values.shape[-1])
            return values.uniform_(-bound, bound)

        def constant(number):
            return lambda values: values.fill_(number)

        def uniform(bound):
            return lambda values: values.uniform_(-bound, bound)

        def whole(number):
            return int(number)

        def param(name, *shape, init=glorot, train=True):
            return self.weight(name, tuple(map(whole, shape)), init, bool(train))

        def linear(name, x, out, bias=True, init=kaiming):
            f_in, out = x.shape[-1], whole(out)
            y = plain(x) @ plain(self.weight(name + ".weight", (out, f_in), init)).t()
            if bias:
                y = y + plain(self.weight(name + ".bias", (out,), uniform(1 / math.sqrt(f_in))))
            return y.as_subclass(Rows)

        def either(static, of_tensor):
            return lambda x: of_tensor(x) if isinstance(x, torch.Tensor) else static(x)

        def pair(static, of_tensors):
            def operate(x, y):
                if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
                    return static(x, y)
                return combined(lambda a, b: of_tensors(torch.as_tensor(a), torch.as_tensor(b)), x, y)
            return operate

        def norm_of(x):
            return x.norm(dim=-1, keepdim=True)

        def norm_weights(name, x):
            return (plain(self.weight(f"{name}.{part}", (x.shape[-1],), constant(of))) for part, of in (("weight", 1.0), ("bias", 0.0)))

        def batch_norm(name, x):
            weight, bias = norm_weights(name, x)
            running = (plain(self.weight(f"{name}.running_{part}", (x.shape[-1],), constant(of), False)) for part, of in (("mean", 0.0), ("var", 1.0)))
            return F.batch_norm(plain(x), *running, weight, bias, self.module.training and not self.drawn).as_subclass(Rows)

        def layer_norm(name, x):
            weight, bias = norm_weights(name, x)
            return F.layer_norm(plain(x), (x.shape[-1],), weight, bias).as_subclass(Rows)

        def dot(x, y):
            return (x * y).sum(-1, keepdim=True)

        return {
            "sum": lambda g: self.reduced(g, "sum"), "mean": lambda g: self.reduced(g, "mean"), "max": lambda g: self.reduced(g, "max"),
            "min": lambda g: self.reduced(g, "min"), "var": lambda g: self.reduced(g, "var"), "std": lambda g: self.reduced(g, "std"),
            "glorot": glorot, "kaiming": kaiming, "zeros": constant(0.0), "ones": constant(1.0), "uniform": uniform, "constant": constant,
            "param": param, "linear": linear, "layer_norm": layer_norm, "batch_norm": batch_norm, "softmax": self.softmax, "dot": dot,
            "names": lambda *parts: ".".join(map(str, parts)), "output": lambda name, x: x,
            "relu": torch.relu, "leaky_relu": F.leaky_relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu,
            "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softplus": F.softplus,
            "exp": either(math.exp, torch.exp), "log": either(math.log, torch.log), "sqrt": either(math.sqrt, torch.sqrt),
            "abs": either(abs, torch.abs), "clamp": torch.clamp,
            "minimum": pair(min, torch.minimum), "maximum": pair(max, torch.maximum),
            "sum_columns": lambda x: x.sum(-1, keepdim=True), "norm": norm_of, "normalize": lambda x: x / norm_of(x).clamp(min=1e-12),
            "concat": lambda *rows: torch.cat(rows, -1), "dropout": lambda x, p: F.dropout(x, p, self.module.training),
        }


class ProgramModule(torch.nn.Module):
    """A layer or a model. Weights have the names and shapes that trainerd writes, without a layer's "convs.0."."""

    def __init__(self, text, n_feature, n_out, args, graph):
        super().__init__()
        self._runtime = runtime = Runtime(self, text, n_out, args, graph)
        none = torch.zeros(1, dtype=torch.int64)  # a first run over two nodes makes the weights
        out = runtime.run(torch.zeros(2, n_feature), torch.tensor([[0], [1]]), None, torch.zeros(1, runtime.numbers.edge_features), none)
        self.width = out.shape[1]
        runtime.drawn = False

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, edge_type=None):
        return self._runtime.run(x, edge_index, edge_weight, edge_attr, edge_type)
