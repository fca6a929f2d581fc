"""Random jobs: a graph of some family, features, labels and splits, a model kind, and options of every section that go with it."""
import copy
import json
import os

import numpy as np

KINDS = ("gcn", "sage", "gin", "gat", "gatv2", "transformer", "agnn", "appnp", "sgc", "gcnii", "rgcn")
SUMS = ("gcn", "sage", "gin", "appnp", "sgc", "gcnii")
STACKS = ("gcn", "sage", "gin", "gat", "gatv2", "transformer", "rgcn")
HEADS = ("gat", "gatv2", "transformer")
LOSSY = ("sampling", "codec", "codec_backward", "stale", "error_feedback", "guard_every", "guard_limit")
RANDOM = ("dropout", "input_dropout", "attention_dropout", "label_input", "label_rate")


def chain(rng, n):
    return [(i, i + 1) for i in range(n - 1)]


def tree(rng, n):
    edges = [(int(rng.integers(0, i)), i) for i in range(1, n)]
    return edges if rng.random() < 0.5 else [(v, u) for u, v in edges]


def dag(rng, n):
    """Papers that cite older ones."""
    return [(int(rng.integers(0, i)), i) for i in range(1, n) for _ in range(int(rng.integers(0, 4)))]


def bipartite(rng, n):
    half = max(1, n // 2)
    return [(int(rng.integers(0, half)), int(rng.integers(half, n))) for _ in range(2 * n)] if n > 1 else []


def star_out(rng, n):
    return [(0, i) for i in range(1, n)]


def star_in(rng, n):
    return [(i, 0) for i in range(1, n)]


def ring(rng, n):
    return [(i, (i + 1) % n) for i in range(n)] if n > 1 else []


def components(rng, n):
    size = int(rng.integers(1, 6))
    return [(u, v) for u in range(n) for v in range(n) if u != v and u // size == v // size and rng.random() < 0.5]


def hubs(rng, n):
    hub = [int(rng.integers(0, n)) for _ in range(2)]
    return [(hub[0], i) for i in range(n)] + [(i, hub[1]) for i in range(n)]


def sparse(rng, n):
    return [tuple(rng.integers(0, n, 2).tolist()) for _ in range(int(rng.integers(0, 2 * n + 1)))]


def sbm(rng, n):
    """Two communities, edges within them, each drawn one way."""
    pairs = [rng.integers(0, n, 2).tolist() for _ in range(5 * n)]
    return [(u, v) for u, v in pairs if u % 2 == v % 2 or rng.random() < 0.1]


def rmat(rng, n):
    """Both ends skewed towards low numbers, from high to low."""
    ends = np.sort((n * rng.random((4 * n, 2)) ** 3).astype(int), 1)
    return [(int(v), int(u)) for u, v in ends]


def dense(rng, n):
    return [(u, v) for u in range(min(n, 9)) for v in range(min(n, 9))]


def symmetric(rng, n):
    edges = sparse(rng, n)
    return edges + [(v, u) for u, v in edges]


def empty(rng, n):
    return []


FAMILIES = (chain, tree, dag, bipartite, star_out, star_in, ring, components, hubs, sparse, sbm, rmat, dense, symmetric, empty)


class Case:
    """n · edges [2, E] · edge_type [E] · edge_weight, edge_features · features [n, f] or None · labels · splits · part [n] ·
    keys by section: dataset, task, partition, model, train, exchange · order: of links, the nodes part after part, and where each
    part begins, as trainerd cut the graph"""

    task: dict = {}
    order = None

    def copy(self):
        return copy.deepcopy(self)

    @property
    def n_part(self):
        return self.partition["parts"]

    def trains(self):
        """Does trainerd take it: training nodes with labels, relations with edges?"""
        train = self.splits["train"]
        if self.task and not (self.edges[0] != self.edges[1]).any():
            return False
        labelled = len(train) > 0 and not (self.labels.dtype == np.float32 and np.isnan(self.labels[train]).all(1).any())
        return labelled and (self.model["kind"] != "rgcn" or self.edges.shape[1] > 0)

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        arrays = {"edges": self.edges, "labels": self.labels, "features": self.features,
                  "edge_type": self.edge_type if self.model["kind"] == "rgcn" else None,
                  "edge_weight": self.edge_weight if "edge_weights" in self.dataset else None,
                  "edge_attr": self.edge_features if "edge_features" in self.dataset else None}
        arrays |= {f"{name}_idx": idx for name, idx in self.splits.items()}
        for name, array in arrays.items():
            path = os.path.join(folder, name + ".npy")
            if array is not None:
                np.save(path, array)
            elif os.path.exists(path):
                os.remove(path)
        with open(os.path.join(folder, "parts.txt"), "w") as file:
            file.writelines(f"{p}\n" for p in self.part)

    def job(self, folder, way, train=None):
        """The job file's text: train replaces keys of [train] and takes away all that makes epochs approximate or random."""
        exact = train is not None
        dataset = {"path": folder, **self.dataset}
        partition = {"cache": "off", **self.partition}
        if partition["method"] == "file":
            partition["file"] = os.path.join(folder, "parts.txt")
        model = {k: v for k, v in self.model.items() if not exact or k not in RANDOM}
        exchange = {k: v for k, v in self.exchange.items() if not exact or k not in LOSSY}
        sections = {"dataset": dataset, "task": self.task, "partition": partition, "model": model, "train": {**self.train, **(train or {})},
                    "exchange": {**exchange, "schedule": way["schedule"], "prefetch": way["prefetch"]},
                    "workers": {"count": way["workers"], "threads": way["threads"], "device": way["device"]},
                    "memory": {"recompute": way["recompute"], **({"spill": folder} if way["spill"] else {})}}
        lines = [f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items()) for name, keys in sections.items()]
        return "".join(lines)


def pick(rng, *values):
    return values[int(rng.integers(0, len(values)))]


def draw_graph(rng, case):
    n = case.n = int(pick(rng, 1, 2, 3, 4, 5, 8, 12, 16, 20, 24, 33, 80))
    edges = pick(rng, *FAMILIES)(rng, n)
    if rng.random() < 0.2:
        edges = edges + [edges[int(i)] for i in rng.integers(0, len(edges), min(5, len(edges)))] if edges else edges
    if rng.random() < 0.2:
        edges = edges + [(int(i), int(i)) for i in rng.integers(0, n, 3)]
    if rng.random() < 0.3:  # numbers that say nothing
        order = rng.permutation(n)
        edges = [(int(order[u]), int(order[v])) for u, v in edges]
    if not edges and case.model["kind"] == "rgcn":
        edges = [(0, n - 1)]
    case.edges = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    n_edge = case.edges.shape[1]
    case.edge_type = np.unique(rng.integers(0, 3, n_edge), return_inverse=True)[1].astype(np.int64).reshape(-1)
    case.edge_weight = (rng.integers(0, 9, n_edge) / 4).astype(np.float32)
    # Of a pair, whichever way it is read, so that repeats and reverse edges have equal rows.
    low, high = np.sort(case.edges, 0) if n_edge else (np.zeros(0), np.zeros(0))
    case.edge_features = np.stack([np.sin(low * 3 + high * 7 + d) for d in range(2)], 1).astype(np.float32)


def draw_nodes(rng, case):
    n, kind = case.n, case.model["kind"]
    f = int(pick(rng, 1, 2, 5, 8, 16))
    case.features = rng.standard_normal((n, f)).astype(np.float32)
    how = rng.random()
    if how < 0.25:
        case.features *= rng.random((n, f)) < 0.2  # sparse
    elif how < 0.4 and kind == "rgcn":
        case.features = None
    name = case.train.get("loss", "auto")
    n_class = int(pick(rng, 2, 3, 5))
    if kind == "rgcn" and case.model.get("blocks"):
        n_class, f = 2 * n_class, 2 * f
        case.features = rng.standard_normal((n, f)).astype(np.float32)
    if name in ("mse", "mae", "huber"):
        case.labels = rng.standard_normal((n, n_class)).astype(np.float32)
        case.labels[rng.random((n, n_class)) < 0.1] = np.nan
    elif name == "bce":
        case.labels = (rng.random((n, n_class)) < 0.4).astype(np.float32)
        case.labels[:, 1:][rng.random((n, n_class - 1)) < 0.2] = np.nan
    else:
        case.labels = rng.integers(0, n_class, n).astype(np.int32)
        case.labels[int(rng.integers(0, n))] = n_class - 1
    order = rng.permutation(n)
    n_train = int(rng.integers(1, n + 1)) if rng.random() < 0.5 else 1
    n_valid = int(rng.integers(0, n - n_train + 1))
    case.splits = {"train": np.sort(order[:n_train]), "valid": np.sort(order[n_train:n_train + n_valid]),
                   "test": np.sort(order[n_train + n_valid:])}
    if name in ("mse", "mae", "huber"):
        case.labels[case.splits["train"], 0] = 0.5


def draw_parts(rng, case):
    k = int(rng.integers(1, min(9, case.n) + 1))
    method = pick(rng, "block", "random", "file", "file", "metis") if rng.random() < 0.3 else pick(rng, "block", "random", "file")
    case.part = rng.permutation(np.concatenate([np.arange(k), rng.integers(0, k, case.n - k)]))  # each has a node
    case.part = np.sort(case.part) if rng.random() < 0.3 else case.part
    case.partition = {"parts": k, "method": method}


def draw_model(rng, case):
    kind = case.model["kind"]
    o = case.model
    o["layers"] = int(pick(rng, 1, 2, 2, 3))
    o["hidden"] = int(pick(rng, 1, 4, 8))
    o["activation"] = pick(rng, "relu", "elu", "leaky_relu", "gelu", "none")
    if kind != "sgc":
        o["norm"] = pick(rng, "none", "none", "layer", "batch")
        o["residual"] = bool(rng.random() < 0.3)
        o["residual_linear"] = bool(o["residual"] and rng.random() < 0.5)
    if kind in STACKS and rng.random() < 0.2:
        o["jumping_knowledge"] = pick(rng, "concat", "max")
    elif kind in STACKS and o["layers"] > 1 and rng.random() < 0.2:
        o["linear_layers"] = 1
    if kind == "sage":
        o["aggregator"] = pick(rng, "mean", "max", "sum")
    if kind == "gin":
        o["learn_eps"] = bool(rng.random() < 0.5)
        o["eps"] = pick(rng, 0.0, 0.3)
    if kind in ("appnp", "gcnii"):
        o["alpha"] = pick(rng, 0.1, 0.5)
    if kind in ("appnp", "sgc", "agnn"):
        o["steps"] = int(pick(rng, 1, 2, 4))
    if kind == "agnn":
        o["layers"] = max(2, o["layers"])
    if kind in HEADS:
        o["heads"], o["out_heads"] = int(pick(rng, 1, 2, 3)), int(pick(rng, 1, 2))
    if kind == "rgcn":
        how = rng.random()
        if how < 0.3:
            o["bases"] = 2
        elif how < 0.5:
            o["blocks"], o["hidden"] = 2, 2 * o["hidden"]
    if rng.random() < 0.3:
        o["dropout"] = 0.4
    if rng.random() < 0.15:
        o["input_dropout"] = 0.3
    if (kind in HEADS or kind == "agnn") and rng.random() < 0.2:
        o["attention_dropout"] = 0.3


def draw_train(rng, case):
    t = case.train = {"epochs": 3, "optimizer": pick(rng, "adam", "adamw", "sgd"), "lr": 0.01, "seed": int(rng.integers(1, 1000))}
    t["loss"] = pick(rng, "auto", "auto", "auto", "bce", "mse", "mae", "huber")
    t["prune"] = pick(rng, "auto", "always", "never")
    if rng.random() < 0.25:
        t["precision"] = "bf16"
    if rng.random() < 0.15:
        t["products"] = "bf16"
    if t["loss"] == "auto" and rng.random() < 0.3:
        t["label_smoothing"] = 0.1
    if t["loss"] == "auto" and rng.random() < 0.2:
        t["class_weights"] = "balanced"
    if rng.random() < 0.3:
        t["weight_decay"] = 0.01
    if rng.random() < 0.2:
        t["clip_norm"] = 0.5
    if rng.random() < 0.2:
        t["decay"] = "first"
    if t["optimizer"] == "sgd":
        t["momentum"] = pick(rng, 0.0, 0.9)


def draw_dataset(rng, case):
    kind, d = case.model["kind"], {}
    if rng.random() < 0.2:
        d["undirected"] = "yes"
    if kind != "rgcn" and rng.random() < 0.25:
        d["self_loops"] = pick(rng, "yes", "no")
    if kind in SUMS and case.model.get("aggregator") != "max" and rng.random() < 0.4:
        d["edge_weights"] = "yes"
    if kind in HEADS and rng.random() < 0.4:
        d["edge_features"] = "yes"
        if d.get("self_loops") == "yes":
            del d["self_loops"]
    if rng.random() < 0.1:
        d["normalize_features"] = "row"
    if kind != "rgcn" and rng.random() < 0.15:
        d["features"] = pick(rng, "degree", "one_hot", "learned")
        case.features = None
        if d["features"] == "one_hot" and case.model.get("residual"):
            case.model["residual"] = case.model["residual_linear"] = False
    case.dataset = d


def draw_exchange(rng, case):
    x = {}
    if rng.random() < 0.3:
        x["cover"] = False
    if rng.random() < 0.3:
        x["store_inputs"] = False
    if rng.random() < 0.1:
        x["plain"] = True
    how = rng.random()
    if how < 0.15:
        x["sampling"] = pick(rng, 0.5, 0.1)
    elif how < 0.3:
        x["codec"] = pick(rng, "bf16", "int8", "int4", "int2", "int8, int4@1")
        x["error_feedback"] = bool(rng.random() < 0.4)
    elif how < 0.4 and not x.get("plain") and case.model.get("aggregator") != "max":
        x["stale"] = 1
    if how < 0.4 and len(x.keys() & {"sampling", "codec", "stale"}) and rng.random() < 0.3:
        x["guard_every"] = 2
    case.exchange = x


def draw_case(seed, number):
    rng = np.random.default_rng([seed, number])
    case = Case()
    case.model = {"kind": pick(rng, *KINDS)}
    draw_train(rng, case)
    draw_model(rng, case)
    draw_graph(rng, case)
    draw_nodes(rng, case)
    if case.features is None and case.model["kind"] == "rgcn":
        case.model.pop("blocks", None)
        case.model["embedding"] = bool(rng.random() < 0.5)
        if not case.model["embedding"]:
            case.model["residual"] = False
            case.model.pop("residual_linear", None)
    draw_parts(rng, case)
    draw_dataset(rng, case)
    draw_exchange(rng, case)
    return draw_task(rng, case), rng


def draw_task(rng, case):
    """Links instead of labels, of all edges."""
    other = case.copy()
    other.task = {"kind": "link", "channels": int(pick(rng, 1, 3, 8, 17)), "negatives": int(pick(rng, 1, 1, 3)), "valid_share": 0.0,
                  "test_share": 0.0}
    other.train = {k: v for k, v in case.train.items() if k not in ("label_smoothing", "class_weights", "prune", "loss")}
    if case.model.get("blocks"):
        other.task["channels"] *= 2
    draw_decoder(rng, other)
    return other if rng.random() < 0.2 and other.trains() else case


def draw_score(rng, channels, typed):
    """A text of one's own: rows of random operations, and a number of two of them."""
    rows, lines, width = [("e.src.x", channels), ("e.dst.x", channels)], ["def score(e):"], lambda: int(pick(rng, 1, 2, 5, 19))
    for i in range(int(rng.integers(1, 6))):
        (x, n), (y, m) = rows[rng.integers(len(rows))], rows[rng.integers(len(rows))]
        way, w = pick(rng, "linear", "element", "concat", "columns", "relation", "two"), width()
        if way == "linear":
            text = f"linear('l{i}', {x}, {w}, bias={bool(rng.integers(2))})"
        elif way == "concat":
            text, w = f"concat({x}, {y})", n + m
        elif way == "columns" and n > 1:
            text, w = f"{x}[:, 1:{n}]", n - 1
        elif way == "relation" and typed:
            text, w = f"{x} * param('r{i}', graph.relations, {n}, init=uniform(1))[e.relation]", n
        elif way == "two" and n == m:
            text, w = f"{pick(rng, '{0} * {1}', '{0} - 0.5 * {1}', 'maximum({0}, {1})')}".format(x, y), n
        else:
            text, w = f"{pick(rng, 'tanh', 'sigmoid', 'relu', 'softplus')}({x})", n
        lines.append(f"    h{i} = {text}")
        rows.append((f"h{i}", w))
    (x, n), (y, m) = rows[-1], rows[rng.integers(len(rows))]
    last = pick(rng, f"sum_columns({x})", f"linear('out', concat({x}, {y}), 1)", f"-norm({x})", f"linear('a', {x}, 1) - sum_columns({y}) / 3",
                f"dot({x}, {y})" if n == m else f"dot(linear('b', {x}, {m}), {y})")
    return "\n".join([*lines, f"    return {last}"]) + "\n"


def draw_decoder(rng, case):
    """What scores a pair, which pairs are drawn, and the loss."""
    task, how, typed = case.task, rng.random(), case.model["kind"] == "rgcn"
    if how < 0.2:
        task |= {"decoder": "mlp", "decoder_layers": int(pick(rng, 1, 2, 3)), "decoder_hidden": int(pick(rng, 0, 4, 19))}
    elif how < 0.5:
        task["decoder"] = draw_score(rng, task["channels"], typed)
    elif typed and how < 0.9:
        task["decoder"] = pick(rng, "distmult", "transe", *(() if task["channels"] % 2 else ("complex", "rotate")))
    how = rng.random()
    if how < 0.2:
        task["sampling"] = "ends"
    elif how < 0.4:
        case.train["loss"] = "cross_entropy"
    elif how < 0.6:
        case.train["loss"], task["margin"] = "margin", float(pick(rng, 0.5, 1.0, 3.0))


def draw_way(rng, case, n_worker, devices):
    """How a job is run; none of it may change a bit. devices: those that have the same bits."""
    device, memory = pick(rng, *devices)
    ranks = rng.permutation(np.concatenate([np.arange(n_worker), rng.integers(0, n_worker, case.n_part - n_worker)]))
    ranks = (ranks - ranks[0]) % n_worker  # rank 0 has part 0
    return {"workers": n_worker, "threads": int(pick(rng, 1, 1, 2)), "prefetch": int(pick(rng, 0, 1, 1, 3)), "device": device,
            "memory": memory, "schedule": pick(rng, "sequential", "halo"), "recompute": pick(rng, "auto", "auto", "always", "never"),
            "spill": bool(memory == "job" and device == "cpu" and not case.exchange.get("stale") and rng.random() < 0.1
                          and not case.task),
            "ranks": ranks.tolist()}
