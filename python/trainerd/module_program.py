"""A model of PyTorch Geometric as a vertex program (docs/programs.md) and its weights, for what no kind of trainerd's models is.

Each call of a module becomes lines of the text: layers of any kinds, after each other or of earlier values, with any widths. The formulas are
those of the modules in evaluation. A value has a name, "h3" for v.h3, and its number of columns.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .arrays import np
from .errors import UsageError
from .module_calls import Call, Join, Tensors, expect, mlp_parts, one_width, refuse, tensors_of
from .tensors import array_of

REDUCE = {"add": "sum", "sum": "sum", "mean": "mean", "max": "max", "min": "min", "std": "std", "var": "var"}
PASSED = ("Dropout", "Identity")
NORM_EPS, NORM_MOMENTUM = 1e-5, 0.1  # of PyTorch, and of trainerd
OUT = "as_classes"  # an identity matrix, whose rows tell trainerd the number of classes


@dataclass
class Value:
    """Rows of all nodes."""

    name: str
    width: int

    @property
    def own(self) -> str:
        return f"v.{self.name}"

    @property
    def source(self) -> str:
        return f"e.src.{self.name}"

    @property
    def destination(self) -> str:
        return f"e.dst.{self.name}"


@dataclass
class Writer:
    """The text so far, and what it says of the graph by the modules' names."""

    lines: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    tensors: Tensors = field(default_factory=dict)
    loops: dict[str, bool] = field(default_factory=dict)  # does it add self loops?
    weighs: dict[str, bool] = field(default_factory=dict)  # is it called with edge weights, which it takes?
    trains: bool = False  # the formulas are those of training, and all weights are tensors

    def value(self, expression: str, width: int) -> Value:
        made = Value(f"h{len(self.lines)}", width)
        self.lines.append(f"    {made.own} = {expression}")
        return made

    def message(self, expression: str) -> str:
        """A value of edges by a name, computed once for all reductions of it."""
        self.functions.append(f"def m{len(self.functions)}(e):\n    return {expression}\n")
        return f"m{len(self.functions) - 1}(e)"

    def param(self, name: str, values: Any) -> str:
        array = np.asarray(array_of(values), np.float32)
        self.tensors[name] = np.ascontiguousarray(array)
        return f'param("{name}", {", ".join(map(str, array.shape))})'

    def number(self, name: str, value: Any) -> str:
        """A number: of a training that learns it a tensor."""
        if self.trains and getattr(value, "requires_grad", False):
            return self.param(name, array_of(value).reshape(1))
        return str(float(array_of(value).reshape(-1)[0]))

    def dropped(self, rows: str, p: float) -> str:
        """In training some of the rows' numbers are 0."""
        return f"dropout({rows}, {p})" if self.trains and p > 0 else rows

    def product(self, name: str, x: str, weight: Any, bias: Any = None) -> str:
        """x times the transposed weight [out, in], as torch's Linear."""
        rows = np.asarray(array_of(weight), np.float32)
        self.tensors[f"{name}.weight"] = np.ascontiguousarray(rows)
        if bias is not None:
            self.tensors[f"{name}.bias"] = np.asarray(array_of(bias), np.float32)
        return f'linear("{name}", {x}, {rows.shape[0]}, bias={bias is not None})'

    def linear(self, name: str, x: str, module: Any) -> str:
        tensors_of(name, module)  # which refuses a module without shapes
        return self.product(name, x, module.weight, module.bias)

    def biased(self, name: str, conv: Any, expression: str) -> str:
        return expression if conv.bias is None else f"{expression} + {self.param(f'{name}.bias', conv.bias)}"

    def steps(self, parts: Sequence[tuple[str, Any]], expression: str) -> str:
        """Linear maps, norms and activations after each other, of nodes or of edges."""
        for name, part in parts:
            made = pointwise(self, name, part, expression)
            if made is None:
                refuse(name, part, f"expected a linear map, a norm of rows or of all nodes, or one of {', '.join(ACTIVATIONS)}")
            expression = made
        return expression


def over_edges(reduce: str, message: str) -> str:
    return f"{reduce}({message} for e in v.in_edges)"


def propagated(x: Value, normalize: bool = True) -> str:
    return over_edges("sum", f"{'e.norm' if normalize else 'e.weight'} * {x.source}")


def reduction(name: str, conv: Any) -> str:
    found = REDUCE.get(str(conv.aggr))
    if found is None:
        refuse(name, conv, f"aggr is {conv.aggr!r}, expected one of {', '.join(map(repr, REDUCE))}")
    return found


# --- of rows: linear maps, norms, activations ---


def _elu(w: Writer, name: str, module: Any, x: str) -> str:
    return f"maximum({x}, 0) + {module.alpha} * minimum(elu({x}), 0)" if module.alpha != 1 else f"elu({x})"


def _softplus(w: Writer, name: str, module: Any, x: str) -> str:
    expect(name, module, beta=1)
    return f"softplus({x})"


def _gelu(w: Writer, name: str, module: Any, x: str) -> str:
    expect(name, module, approximate="none")
    return f"gelu({x})"


def _prelu(w: Writer, name: str, module: Any, x: str) -> str:
    return f"maximum({x}, 0) + {w.param(f'{name}.weight', module.weight)} * minimum({x}, 0)"


ACTIVATIONS: dict[str, Callable[[Writer, str, Any, str], str]] = {
    "ReLU": lambda w, name, module, x: f"relu({x})", "ELU": _elu, "GELU": _gelu, "PReLU": _prelu, "Softplus": _softplus,
    "LeakyReLU": lambda w, name, module, x: f"leaky_relu({x}, {module.negative_slope})",
    "SiLU": lambda w, name, module, x: f"silu({x})", "Sigmoid": lambda w, name, module, x: f"sigmoid({x})",
    "Tanh": lambda w, name, module, x: f"tanh({x})", "ReLU6": lambda w, name, module, x: f"clamp({x}, 0, 6)"}


def _batch_norm(w: Writer, name: str, norm: Any, x: str) -> str:
    """In evaluation a factor and a term for each column."""
    inner = getattr(norm, "module", norm)
    if inner.running_mean is None:
        refuse(name, norm, "it has no running statistics (track_running_stats)")
    if w.trains:
        expect(name, inner, eps=NORM_EPS, momentum=NORM_MOMENTUM, affine=True)
        w.tensors |= {f"{name}.{key}": value for key, value in tensors_of(name, inner).items()}
        return f'batch_norm("{name}", {x})'
    tensors = {key: array_of(value).astype(np.float64) for key, value in inner.state_dict().items()}
    scale = tensors.get("weight", 1.0) / np.sqrt(tensors["running_var"] + inner.eps)
    shift = tensors.get("bias", 0.0) - tensors["running_mean"] * scale
    return f"({x}) * {w.param(f'{name}.scale', scale)} + {w.param(f'{name}.shift', shift)}"


NORMED = """\
def normed(x, n, eps):
    centred = x - sum_columns(x) / n
    return centred / sqrt(sum_columns(centred * centred) / n + eps)
"""


def _layer_norm(w: Writer, name: str, norm: Any, x: str) -> str:
    expect(name, norm, mode="node")
    shape = tuple(getattr(norm, "normalized_shape", (getattr(norm, "in_channels", 1),)))
    if len(shape) != 1:
        refuse(name, norm, f"normalized_shape is {shape!r}, expected one number")
    if NORMED not in w.functions:
        w.functions.append(NORMED)
    text = f"normed({x}, {shape[0]}, {norm.eps})"
    text += "" if norm.weight is None else f" * {w.param(f'{name}.weight', norm.weight)}"
    return text if norm.bias is None else f"{text} + {w.param(f'{name}.bias', norm.bias)}"


NORMS = {"BatchNorm": _batch_norm, "BatchNorm1d": _batch_norm, "LayerNorm": _layer_norm}


def pointwise(w: Writer, name: str, part: Any, x: str) -> str | None:
    """The module's expression; None: it is no linear map, norm or activation."""
    kind = type(part).__name__
    if kind == "Linear":
        return w.linear(name, x, part)
    if kind in PASSED:
        return w.dropped(x, getattr(part, "p", 0.0))
    found = ACTIVATIONS.get(kind) or NORMS.get(kind)
    return None if found is None else found(w, name, part, x)


def width_of(part: Any, width: int) -> int:
    return int(part.weight.shape[0]) if type(part).__name__ == "Linear" else width


# --- layers: sums by a matrix of weights ---


def _gcn(w: Writer, name: str, conv: Any, x: Value) -> Value:
    expect(name, conv, improved=False, aggr="add")
    w.loops[name] = bool(conv.normalize and conv.add_self_loops)
    z = w.value(w.linear(f"{name}.lin", x.own, conv.lin), conv.out_channels)
    return w.value(w.biased(name, conv, propagated(z, conv.normalize)), z.width)


def _powers(w: Writer, conv: Any, x: Value, n: int, normalize: bool = True) -> list[Value]:
    """x, A x, A A x, …"""
    found = [x]
    for _ in range(n):
        found.append(w.value(propagated(found[-1], normalize), x.width))
    return found


def _sgc(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = bool(conv.add_self_loops)
    return w.value(w.linear(f"{name}.lin", _powers(w, conv, x, conv.K)[-1].own, conv.lin), conv.out_channels)


def _ssgc(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = bool(conv.add_self_loops)
    steps = _powers(w, conv, x, conv.K)[1:]
    h = w.value(" + ".join([f"{conv.alpha} * {x.own}", *(f"{(1 - conv.alpha) / conv.K} * {step.own}" for step in steps)]), x.width)
    return w.value(w.linear(f"{name}.lin", h.own, conv.lin), conv.out_channels)


def _appnp(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = bool(conv.normalize and conv.add_self_loops)
    h = x
    for _ in range(conv.K):
        h = w.value(f"{1 - conv.alpha} * {propagated(h, conv.normalize)} + {conv.alpha} * {x.own}", x.width)
    return h


def _tag(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    steps = _powers(w, conv, x, conv.K, conv.normalize)
    terms = (w.linear(f"{name}.lins.{k}", step.own, lin) for k, (step, lin) in enumerate(zip(steps, conv.lins)))
    return w.value(w.biased(name, conv, " + ".join(terms)), conv.out_channels)


def _mixhop(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = bool(conv.add_self_loops)
    steps = _powers(w, conv, x, max(conv.powers))
    rows = [w.value(w.linear(f"{name}.lins.{p}", steps[p].own, conv.lins[p]), conv.out_channels) for p in conv.powers]
    joined = f"concat({', '.join(row.own for row in rows)})" if len(rows) > 1 else rows[0].own
    return w.value(w.biased(name, conv, joined), conv.out_channels * len(rows))


def _light(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    return w.value(propagated(x, conv.normalize), x.width)


def _graph(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    y = w.value(over_edges(reduction(name, conv), f"e.weight * {x.source}"), one_width(name, conv))
    out = f"{w.linear(f'{name}.lin_rel', y.own, conv.lin_rel)} + {w.linear(f'{name}.lin_root', x.own, conv.lin_root)}"
    return w.value(out, conv.out_channels)


def _le(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    expect(name, conv, aggr="add")
    a, b = (w.value(w.linear(f"{name}.{lin}", x.own, getattr(conv, lin)), conv.out_channels) for lin in ("lin1", "lin2"))
    y = over_edges("sum", f"e.weight * ({a.source} - {b.destination})")
    return w.value(f"{y} + {w.linear(f'{name}.lin3', x.own, conv.lin3)}", conv.out_channels)


def _arma(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    outs = []
    for k in range(conv.num_stacks):
        out = x
        for t in range(conv.num_layers):
            at = 0 if conv.shared_weights else t
            weight = conv.init_weight[k] if t == 0 else conv.weight[0 if conv.shared_weights else t - 1, k]
            z = w.value(w.product(f"{name}.{k}.{t}.own", out.own, array_of(weight).T), conv.out_channels)
            bias = None if conv.bias is None else array_of(conv.bias[at, k]).reshape(-1)
            y = f"{propagated(z)} + {w.product(f'{name}.{k}.{t}.root', x.own, array_of(conv.root_weight[at, k]).T, bias)}"
            out = w.value(y, conv.out_channels)
            out = out if conv.act is None else w.value(w.steps([(f"{name}.act", conv.act)], out.own), out.width)
        outs.append(out)
    return w.value(f"({' + '.join(out.own for out in outs)}) / {len(outs)}", conv.out_channels)


def _gcnii(w: Writer, name: str, conv: Any, x: Value, first: Value) -> Value:
    w.loops[name] = bool(conv.normalize and conv.add_self_loops)
    beta = conv.beta
    s = w.value(f"{1 - conv.alpha} * {propagated(x, conv.normalize)}", x.width)
    own = f"{conv.alpha} * {first.own}"
    s = w.value(f"{s.own} + {own}", x.width) if conv.weight2 is None else s
    y = f"{1 - beta} * {s.own} + {beta} * {w.product(f'{name}.weight1', s.own, array_of(conv.weight1).T)}"
    if conv.weight2 is not None:
        f = w.value(own, x.width)
        y += f" + {1 - beta} * {f.own} + {beta} * {w.product(f'{name}.weight2', f.own, array_of(conv.weight2).T)}"
    return w.value(y, x.width)


def _cluster(w: Writer, name: str, conv: Any, x: Value) -> Value:
    expect(name, conv, add_self_loops=True)  # without, the module takes no graph but one of loops
    w.loops[name] = True
    y = over_edges("mean", x.source) + (f" + {conv.diag_lambda} * {x.own} / v.degree" if conv.diag_lambda else "")
    y = w.value(y, x.width).own
    return w.value(f"{w.linear(f'{name}.lin_out', y, conv.lin_out)} + {w.linear(f'{name}.lin_root', x.own, conv.lin_root)}", conv.out_channels)


def _sage(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    source = w.value(f"relu({w.linear(f'{name}.lin', x.own, conv.lin)})", x.width) if conv.project else x
    y = w.value(over_edges(reduction(name, conv), source.source), x.width)
    out = w.linear(f"{name}.lin_l", y.own, conv.lin_l)
    out += f" + {w.linear(f'{name}.lin_r', x.own, conv.lin_r)}" if conv.root_weight else ""
    return w.value(f"normalize({out})" if conv.normalize else out, conv.out_channels)


def _gin(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    parts = mlp_parts(f"{name}.nn", conv.nn)
    y = w.value(f"(1 + {w.number(f'{name}.eps', conv.eps)}) * {x.own} + {over_edges(reduction(name, conv), x.source)}", x.width)
    return _after(w, parts, y)


def _after(w: Writer, parts: Sequence[tuple[str, Any]], x: Value) -> Value:
    for name, part in parts:
        x = w.value(w.steps([(name, part)], x.own), width_of(part, x.width))
    return x


# --- layers: of edges ---


def _edge(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    parts = mlp_parts(f"{name}.nn", conv.nn)
    width = 2 * x.width
    for _, part in parts:
        width = width_of(part, width)
    message = w.message(w.steps(parts, f"concat({x.destination}, {x.source} - {x.destination})"))
    return w.value(over_edges(reduction(name, conv), message), width)


def _resgated(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    expect(name, conv, edge_dim=None)
    k, q, u = (w.value(w.linear(f"{name}.{lin}", x.own, getattr(conv, lin)), conv.out_channels) for lin in ("lin_key", "lin_query", "lin_value"))
    gate = w.steps([(f"{name}.act", conv.act)], f"{k.destination} + {q.source}")
    y = over_edges(reduction(name, conv), f"{gate} * {u.source}")
    y += f" + {w.linear(f'{name}.lin_skip', x.own, conv.lin_skip)}" if conv.root_weight else ""
    return w.value(w.biased(name, conv, y), conv.out_channels)


def _film(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    expect(name, conv, num_relations=1)
    f = conv.out_channels
    acted = (lambda text: text) if conv.act is None else lambda text: w.steps([(f"{name}.act", conv.act)], text)
    h = w.value(w.linear(f"{name}.lins.0", x.own, conv.lins[0]), f)
    film = w.value(w.steps(mlp_parts(f"{name}.films.0", conv.films[0]), x.own), 2 * f)
    skip = w.value(w.steps(mlp_parts(f"{name}.film_skip", conv.film_skip), x.own), 2 * f)
    message = acted(f"{film.destination}[:, {f}:{2 * f}] * {h.source} + {film.destination}[:, 0:{f}]")
    own = acted(f"{skip.own}[:, {f}:{2 * f}] * {w.linear(f'{name}.lin_skip', x.own, conv.lin_skip)} + {skip.own}[:, 0:{f}]")
    return w.value(f"{over_edges(reduction(name, conv), message)} + {own}", f)


def _pna(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = False
    expect(name, conv, edge_dim=None)
    scaled = conv.aggr_module
    kinds = {"MeanAggregation": "mean", "MinAggregation": "min", "MaxAggregation": "max", "StdAggregation": "std", "VarAggregation": "var",
             "SumAggregation": "sum"}
    log, linear = float(scaled.avg_deg_log), float(scaled.avg_deg_lin)
    degree = "maximum(v.degree, 1)"  # of a node without edges all reductions are 0
    factors = {"identity": "1", "amplification": f"log({degree} + 1) / {log}", "attenuation": f"{log} / log({degree} + 1)",
               "linear": f"{degree} / {linear}", "inverse_linear": f"{linear} / {degree}"}
    outs = []
    for t in range(conv.towers):
        own = w.value(f"{x.own}[:, {t * conv.F_in}:{(t + 1) * conv.F_in}]", conv.F_in) if conv.divide_input else x
        message = w.message(w.steps(mlp_parts(f"{name}.pre_nns.{t}", conv.pre_nns[t]), f"concat({own.destination}, {own.source})"))
        reduced = []
        for aggregator in scaled.aggr.aggrs:
            kind = kinds.get(type(aggregator).__name__)
            if kind is None:
                refuse(name, conv, f"the aggregator {type(aggregator).__name__}, expected one of {', '.join(kinds)}")
            reduced.append(w.value(over_edges(kind, message), conv.F_in))
        rows = [w.value(f"{factors[scaler]} * {row.own}", conv.F_in) for scaler in scaled.scaler for row in reduced]
        y = w.value(f"concat({', '.join(row.own for row in (own, *rows))})", conv.F_in * (1 + len(rows)))
        outs.append(w.value(w.steps(mlp_parts(f"{name}.post_nns.{t}", conv.post_nns[t]), y.own), conv.F_out))
    joined = f"concat({', '.join(out.own for out in outs)})" if len(outs) > 1 else outs[0].own
    return w.value(w.linear(f"{name}.lin", joined, conv.lin), conv.out_channels)


def _agnn(w: Writer, name: str, conv: Any, x: Value) -> Value:
    w.loops[name] = bool(conv.add_self_loops)
    n = w.value(f"normalize({x.own})", x.width)
    beta = w.number(f"{name}.beta", conv.beta)
    return w.value(over_edges("sum", f"softmax({beta} * dot({n.source}, {n.destination})) * {x.source}"), x.width)


# --- layers: attention ---


def _attend(w: Writer, name: str, conv: Any, score: str, rows: Value) -> tuple[str, int]:
    """Σ softmax(score) · rows, of heads joined or their mean, and its columns."""
    y = w.value(over_edges("sum", f"{w.dropped(f'softmax({score})', conv.dropout)} * {rows.source}"), rows.width)
    return (f"{y.own}.flat()", rows.width) if conv.concat else (f"{y.own}.mean_heads()", conv.out_channels)


def _gat(w: Writer, name: str, conv: Any, x: Value) -> Value:
    expect(name, conv, edge_dim=None, residual=False)
    if isinstance(conv.in_channels, (tuple, list)):
        refuse(name, conv, f"in_channels is {conv.in_channels!r}, expected one number")
    w.loops[name] = bool(conv.add_self_loops)
    h, f = conv.heads, conv.out_channels
    lin = getattr(conv, "lin", None) or conv.lin_src
    z = w.value(f"{w.product(f'{name}.lin', x.own, lin.weight)}.heads({h})", h * f)
    s, t = (w.value(f"dot({z.own}, {w.param(f'{name}.{key}', getattr(conv, key))})", h) for key in ("att_src", "att_dst"))
    y, width = _attend(w, name, conv, f"leaky_relu({s.source} + {t.destination}, {conv.negative_slope})", z)
    return w.value(w.biased(name, conv, y), width)


def _gatv2(w: Writer, name: str, conv: Any, x: Value) -> Value:
    expect(name, conv, edge_dim=None, residual=False)
    one_width(name, conv)
    w.loops[name] = bool(conv.add_self_loops)
    h, f = conv.heads, conv.out_channels
    left, right = (w.value(f"{w.linear(f'{name}.{key}', x.own, getattr(conv, key))}.heads({h})", h * f) for key in ("lin_l", "lin_r"))
    score = f"dot({w.param(f'{name}.att', conv.att)}, leaky_relu({left.source} + {right.destination}, {conv.negative_slope}))"
    y, width = _attend(w, name, conv, score, left)
    return w.value(w.biased(name, conv, y), width)


def _transformer(w: Writer, name: str, conv: Any, x: Value) -> Value:
    expect(name, conv, edge_dim=None, beta=False)
    one_width(name, conv)
    w.loops[name] = False
    h, f = conv.heads, conv.out_channels
    k, q, u = (w.value(f"{w.linear(f'{name}.lin_{key}', x.own, getattr(conv, f'lin_{key}'))}.heads({h})", h * f) for key in ("key", "query", "value"))
    y, width = _attend(w, name, conv, f"dot({q.destination}, {k.source}) / {math.sqrt(f)}", u)
    return w.value(y + (f" + {w.linear(f'{name}.lin_skip', x.own, conv.lin_skip)}" if conv.root_weight else ""), width)


LAYERS: dict[str, Callable[..., Value]] = {
    "AGNNConv": _agnn, "APPNP": _appnp, "ARMAConv": _arma, "ClusterGCNConv": _cluster, "EdgeConv": _edge, "FiLMConv": _film, "GATConv": _gat,
    "GATv2Conv": _gatv2, "GCN2Conv": _gcnii, "GCNConv": _gcn, "GINConv": _gin, "GraphConv": _graph, "LEConv": _le, "LGConv": _light,
    "MixHopConv": _mixhop, "PNAConv": _pna, "ResGatedGraphConv": _resgated, "SAGEConv": _sage, "SGConv": _sgc, "SSGConv": _ssgc, "TAGConv": _tag,
    "TransformerConv": _transformer}
WEIGHED = ("APPNP", "ARMAConv", "GCN2Conv", "GCNConv", "GraphConv", "LEConv", "LGConv", "MixHopConv", "SGConv", "SSGConv", "TAGConv")


# --- the model ---


def job_of_calls(calls: list[Call], columns: int) -> tuple[dict[str, dict[str, Any]], Tensors]:
    """The [model] and [dataset] sections of a job, and the weights by their names in the text. columns: of the input."""
    w = Writer()
    text, dataset = write_calls(w, calls, columns)
    return {"model": {"kind": "program", "program": text}, "dataset": dataset}, w.tensors


def write_calls(w: Writer, calls: list[Call], columns: int) -> tuple[str, dict[str, Any]]:
    """The text, and the [dataset] section that goes with it."""
    value = Value("x", columns)
    made = {calls[0].takes[0]: value}
    for call in calls:
        value = made[call.gives] = _called(w, call, [made[name] for name in call.takes])
    _expect_same("self loops are added", w.loops)
    _expect_same("edge weights are taken", w.weighs)
    out = value.own
    if not w.trains:
        w.tensors[f"{OUT}.weight"] = np.eye(value.width, dtype=np.float32)
        out = f'linear("{OUT}", {value.own}, classes, bias=False)'
    head = "self_loops = True\n\n" if any(w.loops.values()) else ""
    body = "\n".join([*w.functions, "def model(v, classes):", *w.lines, f"    return {out}\n"])
    return head + body, {"undirected": "no", "self_loops": "auto", **({} if any(w.weighs.values()) else {"edge_weights": "no"})}


def _called(w: Writer, call: Call, takes: list[Value]) -> Value:
    name, module = call.name, call.module
    if isinstance(module, Join):
        rows = [take.own for take in takes]
        if module.mode == "cat":
            return w.value(f"concat({', '.join(rows)})" if len(rows) > 1 else rows[0], sum(take.width for take in takes))
        if module.mode == "add":
            if takes[0].width != takes[1].width:
                refuse(name, module, f"a sum of {takes[0].width} and {takes[1].width} columns, expected as many")
            return w.value(" + ".join(rows), takes[0].width)
        return w.value(functools.reduce(lambda a, b: f"maximum({a}, {b})", rows), takes[0].width)
    kind = type(module).__name__
    if kind not in LAYERS:
        text = pointwise(w, name, module, takes[0].own) if hasattr(module, "state_dict") else None
        if text is None or len(takes) > 1:
            refuse(name, module, f"expected one of {', '.join((*LAYERS, 'Linear', *NORMS, *ACTIVATIONS))}")
        return w.value(text, width_of(module, takes[0].width))
    n_take = 2 if kind == "GCN2Conv" else 1
    if len(takes) != n_take:
        refuse(name, module, f"it takes {len(takes)} values of nodes, expected {n_take}")
    expect(name, module, flow="source_to_target")
    tensors_of(name, module)  # which refuses a module without shapes
    if kind in WEIGHED:
        w.weighs[name] = call.weighs
    return LAYERS[kind](w, name, module, *takes)


def _expect_same(what: str, found: dict[str, bool]) -> None:
    """All edges of a program have the same weights, and its graph the same loops."""
    yes, no = ([name for name, is_so in found.items() if is_so is wanted] for wanted in (True, False))
    if yes and no:
        raise UsageError(f"model: {what} at '{yes[0]}', and not at '{no[0]}': expected the same at all layers")
