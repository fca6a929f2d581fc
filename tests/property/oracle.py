"""What a job computes, from the public definitions of its layers, on dense float64 matrices with autograd.

It shares no code with trainerd and none of its ideas: no parts, no sparse matrices, no hand-written backward. A node's row of
the adjacency matrix has its in-edges. Layers are PyTorch Geometric's GCNConv, SAGEConv, GINConv, GATConv, GATv2Conv,
TransformerConv, AGNNConv, RGCNConv, GCN2Conv, SGConv and APPNP, with DGL's edge weights for SAGE and GIN.
"""
import math
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F

ACTIVATIONS = {"relu": torch.relu, "elu": F.elu, "leaky_relu": F.leaky_relu, "gelu": F.gelu, "none": lambda x: x}
ROUNDING = 6e-8
ADDS_LOOPS = ("gcn", "gat", "gatv2", "agnn", "appnp", "sgc", "gcnii")


VARIANCE_LEAST = 1e-4


class IllConditioned(Exception):
    """A norm divides by next to nothing: what is computed says more of rounding than of the job."""


class Graph:
    """The job's graph as docs/data.md defines it: repeats dropped or added up, reverse edges, loops."""

    def __init__(self, case, dtype):
        n, kind, dataset = case.n, case.model["kind"], case.dataset
        undirected = dataset.get("undirected") == "yes"
        loops = dataset.get("self_loops", "auto")
        src, dst = case.edges
        typed = kind == "rgcn"
        weight = case.edge_weight if dataset.get("edge_weights") == "yes" else None
        features = case.edge_features if dataset.get("edge_features") == "yes" else None
        n_type = int(case.edge_type.max()) + 1 if typed and len(src) else 1
        self.n_relation = n_type * (2 if undirected else 1) if typed else 1
        self.weight = torch.zeros(self.n_relation, n, n, dtype=dtype)
        self.there = torch.zeros(self.n_relation, n, n, dtype=torch.bool)
        self.features = None if features is None else torch.zeros(n, n, features.shape[1], dtype=dtype)
        for e, (u, v) in enumerate(zip(src.tolist(), dst.tolist())):
            t = int(case.edge_type[e]) if typed else 0
            w = 1.0 if weight is None else float(weight[e])
            self.put(t, v, u, w * (2 if undirected and u == v and not typed else 1), weight is not None)
            if undirected and (u != v or typed):
                self.put(t + n_type if typed else t, u, v, w, weight is not None)
            if features is not None:
                self.features[v, u] = torch.tensor(features[e].astype(np.float64)).to(dtype)
                if undirected:
                    self.features[u, v] = self.features[v, u]
        self.loops(n, loops if loops != "auto" else "yes" if kind in ADDS_LOOPS else "stored", weight is not None)

    def put(self, t, v, u, w, weighted):
        self.weight[t, v, u] = self.weight[t, v, u] + w if weighted else 1.0
        self.there[t, v, u] = True

    def loops(self, n, how, weighted):
        eye = torch.eye(n, dtype=torch.bool)
        if how == "stored":
            return
        if self.features is not None:
            others = self.there[0] & ~eye
            mean = (self.features * others[:, :, None]).sum(1) / others.sum(1).clamp(min=1)[:, None]
            self.features = torch.where(eye[:, :, None], mean[:, None, :], self.features)
        for t in range(self.n_relation):
            if how == "no":
                self.weight[t][eye], self.there[t][eye] = 0.0, False
            else:
                kept = self.weight[t].diagonal().clone()
                had = self.there[t].diagonal().clone()
                self.weight[t][eye] = torch.where(had & torch.tensor(weighted), kept, torch.ones_like(kept))
                self.there[t][eye] = True


class Model:
    def __init__(self, case, dtype, seed):
        self.case, self.dtype, self.options, self.p, self.epoch = case, dtype, case.model, None, 0
        self.random = None if seed is None else torch.Generator().manual_seed(seed)
        self.graph = Graph(case, dtype)
        adjacency = self.graph.weight[0]
        degree = adjacency.sum(1)
        inverse = torch.where(degree > 0, degree.clamp(min=1e-300 if dtype == torch.float64 else 1e-30) ** -0.5, torch.zeros_like(degree))
        self.gcn = inverse[:, None] * adjacency * inverse[None, :]
        self.x = self.features()

    def features(self):
        if self.case.dataset.get("features") == "degree":
            others = (self.graph.there & ~torch.eye(self.case.n, dtype=torch.bool)).sum(0)
            x = torch.stack([torch.ones(self.case.n), others.sum(1).log1p(), others.sum(0).log1p()], 1).to(self.dtype)
        elif self.case.features is None:
            return torch.eye(self.case.n, dtype=self.dtype)
        else:
            x = torch.tensor(self.case.features.astype(np.float64)).to(self.dtype)
        if self.case.dataset.get("normalize_features") == "row":
            total = x.abs().sum(1, keepdim=True)
            x = torch.where(total > 0, x / total.clamp(min=1e-30), x)
        return x

    def rounded(self, y):
        """y, or where there is a seed each number of it as far away as a float32 may be."""
        return y if self.random is None else y * (1 + ROUNDING * (2 * torch.rand(y.shape, generator=self.random, dtype=y.dtype) - 1))

    # Layers: p has their parameters by PyTorch Geometric's names.

    def layer_gcn(self, p, x, last):
        return self.gcn @ (x @ p["lin.weight"].T) + p["bias"]

    def layer_sage(self, p, x, last):
        how = self.options.get("aggregator", "mean")
        there = self.graph.there[0]
        if how == "max":
            rows = torch.where(there[:, :, None], x[None, :, :], torch.full((), -math.inf, dtype=self.dtype))
            y = torch.where(there.any(1)[:, None], rows.amax(1), torch.zeros((), dtype=self.dtype))
        else:
            y = self.graph.weight[0] @ x
            y = y / there.sum(1).clamp(min=1)[:, None] if how == "mean" else y
        return y @ p["lin_l.weight"].T + p["lin_l.bias"] + x @ p["lin_r.weight"].T

    def layer_gin(self, p, x, last):
        h = (1 + p["eps"]) * x + self.graph.weight[0] @ x
        return torch.relu(h @ p["nn.0.weight"].T + p["nn.0.bias"]) @ p["nn.2.weight"].T + p["nn.2.bias"]

    def layer_rgcn(self, p, x, last):
        weight = torch.einsum("rb,bio->rio", p["comp"], p["weight"]) if "comp" in p else p["weight"]
        if weight.dim() == 4:
            weight = torch.stack([torch.block_diag(*w) for w in weight])
        y = x @ p["root"] + p["bias"]
        for r in range(self.graph.n_relation):
            there = self.graph.there[r].to(self.dtype)
            y = y + there @ x / there.sum(1).clamp(min=1)[:, None] @ weight[r]
        return y

    def attend(self, score, rows):
        """score [to, from, head], rows [from, head, column] or [to, from, head, column]"""
        there = self.graph.there[0][:, :, None]
        score = torch.where(there, score, torch.full((), -math.inf, dtype=self.dtype))
        most = score.amax(1, keepdim=True).detach()
        e = torch.exp(score - torch.where(torch.isfinite(most), most, torch.zeros_like(most)))
        alpha = e / e.sum(1, keepdim=True).clamp(min=1e-300 if self.dtype == torch.float64 else 1e-30)
        return torch.einsum("ijh,jhc->ihc", alpha, rows) if rows.dim() == 3 else torch.einsum("ijh,ijhc->ihc", alpha, rows)

    def heads(self, last):
        return self.options.get("out_heads", 1) if last else self.options.get("heads", 1)

    def join(self, y, last):
        return y.mean(1) if last else y.flatten(1)

    def edges(self, p, n_head):
        return (self.graph.features @ p["lin_edge.weight"].T).unflatten(-1, (n_head, -1))

    def layer_gat(self, p, x, last):
        n_head = self.heads(last)
        z = (x @ p["lin.weight"].T).unflatten(1, (n_head, -1))
        score = (z * p["att_src"]).sum(-1)[None, :, :] + (z * p["att_dst"]).sum(-1)[:, None, :]
        if self.graph.features is not None:
            score = score + (self.edges(p, n_head) * p["att_edge"]).sum(-1)
        return self.join(self.attend(F.leaky_relu(score, 0.2), z), last) + p["bias"]

    def layer_gatv2(self, p, x, last):
        n_head = self.heads(last)
        left = (x @ p["lin_l.weight"].T + p["lin_l.bias"]).unflatten(1, (n_head, -1))
        right = (x @ p["lin_r.weight"].T + p["lin_r.bias"]).unflatten(1, (n_head, -1))
        both = left[None, :] + right[:, None]
        if self.graph.features is not None:
            both = both + self.edges(p, n_head)
        return self.join(self.attend((F.leaky_relu(both, 0.2) * p["att"]).sum(-1), left), last) + p["bias"]

    def layer_transformer(self, p, x, last):
        n_head = self.heads(last)
        key, query, value = ((x @ p[f"lin_{of}.weight"].T + p[f"lin_{of}.bias"]).unflatten(1, (n_head, -1))
                             for of in ("key", "query", "value"))
        key, value = key[None, :], value[None, :].expand(self.case.n, -1, -1, -1)
        if self.graph.features is not None:
            edges = self.edges(p, n_head)
            key, value = key + edges, value + edges
        score = (query[:, None] * key).sum(-1) / query.shape[2] ** 0.5
        return self.join(self.attend(score, value), last) + x @ p["lin_skip.weight"].T + p["lin_skip.bias"]

    # What surrounds a layer.

    def end(self, p, layer, x, y, training):
        y = self.rounded(y)
        if self.options.get("residual"):
            name = f"residuals.{layer}.weight"
            y = y + (x @ p[name].T if name in p else x)
        norm = self.options.get("norm", "none")
        if norm != "none" and training and y.var(0 if norm == "batch" else 1, unbiased=False).min() < VARIANCE_LEAST:
            raise IllConditioned
        if norm == "layer":
            y = F.layer_norm(y, y.shape[1:], p[f"norms.{layer}.weight"], p[f"norms.{layer}.bias"])
        if norm == "batch":
            q = {k: p[f"norms.{layer}.module.{k}"] for k in ("weight", "bias", "running_mean", "running_var")}
            mean, var = (y.mean(0), y.var(0, unbiased=False)) if training else (q["running_mean"], q["running_var"])
            y = (y - mean) / torch.sqrt(var + 1e-5) * q["weight"] + q["bias"]
        return ACTIVATIONS[self.options.get("activation", "relu")](y)

    def stack(self, p, x, kinds, training):
        """kinds: of each layer, "lins" for a linear one"""
        jumps = self.options.get("jumping_knowledge", "none")
        n_hidden = len(kinds) - (jumps == "none")
        outputs, n_conv = [], sum(kind != "lins" for kind in kinds)
        for layer, kind in enumerate(kinds):
            if kind == "lins":
                i = layer - n_conv
                y = x @ p[f"lins.{i}.weight"].T + p[f"lins.{i}.bias"]
            else:
                own = {k[len(f"convs.{layer}."):]: v for k, v in p.items() if k.startswith(f"convs.{layer}.")}
                y = getattr(self, "layer_" + kind)(own, x, jumps == "none" and layer == self.options["layers"] - 1)
            x = self.end(p, layer, x, y, training) if layer < n_hidden else y
            outputs.append(x)
        if jumps != "none":
            x = torch.cat(outputs, 1) if jumps == "concat" else torch.stack(outputs).amax(0)
            x = x @ p["lin.weight"].T + p["lin.bias"]
        return x

    def logits(self, p, training):
        o, kind, x = self.options, self.options["kind"], self.x
        if "embedding.weight" in p:
            x = x @ p["embedding.weight"].T
        if kind == "sgc":
            for _ in range(o.get("steps", 10)):
                x = self.gcn @ x
            return x @ p["convs.0.lin.weight"].T + p["convs.0.lin.bias" if "convs.0.lin.bias" in p else "convs.0.bias"]
        if kind == "appnp":
            h = z = self.stack(p, x, ["lins"] * o["layers"], training)
            for _ in range(o.get("steps", 10)):
                z = (1 - o.get("alpha", 0.1)) * (self.gcn @ z) + o.get("alpha", 0.1) * h
            return z
        if kind == "gcnii":
            x = first = ACTIVATIONS[o.get("activation", "relu")](x @ p["lins.0.weight"].T + p["lins.0.bias"])
            for layer in range(o["layers"]):
                beta, alpha = math.log(o.get("theta", 0.5) / (layer + 1) + 1), o.get("alpha", 0.1)
                s = (1 - alpha) * (self.gcn @ x) + alpha * first
                x = self.end(p, layer, x, (1 - beta) * s + beta * (s @ p[f"convs.{layer}.weight1"]), training)
            return x @ p["lins.1.weight"].T + p["lins.1.bias"]
        if kind == "agnn":
            for layer in range(o["layers"] - 1):
                x = self.end(p, layer, x, x @ p[f"lins.{layer}.weight"].T + p[f"lins.{layer}.bias"], training)
            for step in range(o.get("steps", 10)):
                unit = F.normalize(x, dim=1)
                x = self.attend(p[f"convs.{step}.beta"] * (unit @ unit.T)[:, :, None], x[:, None, :])[:, 0]
            last = o["layers"] - 1
            return x @ p[f"lins.{last}.weight"].T + p[f"lins.{last}.bias"]
        n_linear = o.get("linear_layers", 0)
        return self.stack(p, x, [kind] * (o["layers"] - n_linear) + ["lins"] * n_linear, training)

    def scores(self, logits, head, tail, relation=None):
        """task.decoder of pairs; a text of one's own is run as Python."""
        name, p, x, y = self.case.task.get("decoder", "dot"), self.p, logits[torch.as_tensor(head)], logits[torch.as_tensor(tail)]
        r = p["decoder.rel_emb"][torch.as_tensor(relation)] if "decoder.rel_emb" in p else None
        half = x.shape[1] // 2
        turned = lambda z: torch.complex(z[:, :half], z[:, half:])
        if "\n" in name:
            words = {k: getattr(torch, k) for k in ("tanh", "sigmoid", "relu", "maximum")}
            words |= {"softplus": F.softplus, "uniform": float, "concat": lambda *z: torch.cat(z, 1), "dot": lambda a, b: (a * b).sum(1, True),
                      "sum_columns": lambda z: z.sum(1, True), "norm": lambda z: z.norm(dim=1, keepdim=True),
                      "graph": SimpleNamespace(relations=0), "param": lambda key, *shape, init: p[f"decoder.{key}"],
                      "linear": lambda key, z, n, bias=True: F.linear(z, p[f"decoder.{key}.weight"], p[f"decoder.{key}.bias"] if bias else None)}
            exec(name, words)
            index = torch.as_tensor(relation) if relation is not None else None
            return words["score"](SimpleNamespace(src=SimpleNamespace(x=x), dst=SimpleNamespace(x=y), relation=index))[:, 0]
        if name == "transe":
            return -(x + r - y).norm(dim=1)
        if name == "complex":
            return (turned(r) * turned(x) * turned(y).conj()).real.sum(1)
        if name == "rotate":
            return -(turned(x) * turned(r) / turned(r).abs() - turned(y)).abs().sum(1)
        product = x * y if name != "distmult" else x * r * y
        n_layer = self.case.task.get("decoder_layers", 2) if name == "mlp" else 0
        for i in range(n_layer):
            product = product @ p[f"decoder.lins.{i}.weight"].T + p[f"decoder.lins.{i}.bias"]
            product = torch.relu(product) if i + 1 < n_layer else product
        return product.sum(1)

    def ends_loss(self, logits, there):
        """The mean over ends of edges, each with pairs in which that end stays (docs/decisions/086)."""
        case, name = self.case, self.case.train.get("loss", "bce")
        losses = []
        for node, other, relation, is_tail, drawn in groups(case, there.numpy(), self.is_symmetric(there), self.epoch):
            stays, goes = [node] * (1 + len(drawn)), [other] + drawn
            score = self.scores(logits, *((goes, stays) if is_tail else (stays, goes)), [relation] * (1 + len(drawn)))
            edge, rest = score[0], score[1:]
            mean = lambda x: x.mean() if len(drawn) else torch.zeros((), dtype=self.dtype)
            if name == "cross_entropy":
                losses.append(torch.logsumexp(score, 0) - edge)
            elif name == "margin":
                losses.append(mean(F.relu(case.task.get("margin", 1.0) - edge + rest)))
            else:
                losses.append(F.softplus(-edge) + mean(F.softplus(rest)))
        return torch.stack(losses).mean() + 0.0 * logits.sum()  # which may have no pair that counts

    def is_symmetric(self, there):
        typed = self.case.model["kind"] == "rgcn" or self.graph.features is not None
        return not typed and bool((there == there.mT).all()) and bool((self.graph.weight == self.graph.weight.mT).all())

    def links_loss(self, logits):
        """torch_geometric.nn.GAE.recon_loss; the mean over pairs without an edge is over as many as there are in the mean."""
        case, (order, begin) = self.case, self.case.order
        there = self.graph.there & ~torch.eye(case.n, dtype=torch.bool)
        if samples_ends(case):
            return self.ends_loss(logits, there)
        symmetric = self.is_symmetric(there)
        _, to, source = there.nonzero(as_tuple=True)
        n_link, total = len(to) // 2 if symmetric else len(to), case.n * (case.n - 1) / 2
        joined = (there | there.mT).any(0).numpy()
        n = math.ceil(n_link * case.task["negatives"] / (1 - min(n_link / total, 0.75)))
        place = drawn_pairs(n, begin, case.train["seed"], self.epoch, joined[np.ix_(order, order)])
        turns = (place[:, 0] < place[:, 1]) != (place.sum(1) % 2 == 0)  # of both directions half the pairs
        end = order[np.where(turns[:, None], place[:, ::-1], place)]
        head, tail = (torch.minimum(to, source), torch.maximum(to, source)) if symmetric else (source, to)
        score = lambda u, v: self.scores(logits, u, v)
        n_kept = n * (1 - joined.sum() / 2 / total)
        negative = F.softplus(score(end[:, 0], end[:, 1])).sum() / n_kept if n_kept > 0 else 0.0
        return F.softplus(-score(head, tail)).mean() + negative

    def loss(self, logits, rows):
        case, train = self.case, self.case.train
        if case.task:
            return self.links_loss(logits)
        z = logits[torch.tensor(rows)]
        labels, name = case.labels[rows], train.get("loss", "auto")
        n_class = z.shape[1]
        if case.labels.ndim == 1 and name in ("auto", "cross_entropy"):
            weight = None
            if train.get("class_weights") == "balanced":
                count = np.bincount(case.labels[case.splits["train"]], minlength=n_class)
                weight = np.where(count > 0, count.sum() / np.maximum(count, 1) / (count > 0).sum(), 1.0)
                weight = torch.tensor(weight.astype(np.float32).astype(np.float64)).to(self.dtype)
            return F.cross_entropy(z, torch.tensor(labels).long(), weight, label_smoothing=train.get("label_smoothing", 0.0))
        target = torch.tensor(labels.astype(np.float64)).to(self.dtype)
        there = ~torch.isnan(target) if name not in ("auto", "bce") else ~torch.isnan(target) & (target >= 0)
        target, z = target.reshape(z.shape)[there.reshape(z.shape)], z[there.reshape(z.shape)]
        if name in ("auto", "bce"):
            return F.binary_cross_entropy_with_logits(z, target)
        return {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.huber_loss}[name](z, target)


def philox(counter, key):
    """Philox4x32-10 of Salmon et al., 2011."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def drawn_pairs(n, begin, seed, epoch, joined):
    """Of n pairs those without an edge, as docs/decisions/085 defines them, by places in the order of all parts: part by part
    numbers in proportion to the pairs of nodes."""
    key, k = (seed & 0xFFFFFFFF, seed >> 32), len(begin) - 1
    stream = lambda op: op | 8 << 24
    u = (philox((0, 0, epoch, stream(1)), key)[0] >> 8) / 2 ** 24
    size = np.diff(begin)
    total, before, pairs = int(begin[-1]) * (int(begin[-1]) - 1) // 2, 0, []
    for a in range(k):
        for b in range(a, k):
            first = math.floor(before / total * n + u)
            before += int(size[a]) * (int(size[a]) - 1) // 2 if a == b else int(size[a]) * int(size[b])
            for t in range(math.floor(before / total * n + u) - first):
                drawn = philox((t, a * k + b, epoch, stream(0)), key)
                i, j = drawn[0] * int(size[a]) >> 32, drawn[1] * (int(size[b]) - (a == b)) >> 32
                i, j = int(begin[a]) + i, int(begin[b]) + j + (a == b and j >= i)
                if not joined[i, j]:
                    pairs.append((i, j))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def reads_relations(task):
    decoder = task.get("decoder", "dot")
    return decoder in ("distmult", "complex", "transe", "rotate") or "e.relation" in decoder


def samples_ends(case):
    task, loss = case.task, case.train.get("loss", "auto")
    needs = reads_relations(task) or loss in ("margin", "cross_entropy")
    return task.get("sampling", "auto") == "ends" or (task.get("sampling", "auto") == "auto" and needs)


def u32(key, stream, op, epoch, row, column):
    return philox((column // 4, row & 0xFFFFFFFF, epoch, op | (row >> 32) << 16 | stream << 24), key)[column % 4]


def feistel(n, round_key, x):
    """A permutation of 0 … n-1: alternating rounds over the bits of n-1, walked until it lands below n."""
    bits = (n - 1).bit_length()
    low_bits, mask = bits // 2, 0xFFFFFFFF

    def mix(y, k):
        y = (y ^ k) * 0x7FEB352D & mask
        y = (y ^ y >> 15) * 0x846CA68B & mask
        return y ^ y >> 16

    while True:
        for i, k in enumerate(round_key):
            low, high = x & (1 << low_bits) - 1, x >> low_bits
            if i % 2 == 0:
                low ^= mix(high, k) & (1 << low_bits) - 1
            else:
                high ^= mix(low, k) & (1 << bits - low_bits) - 1
            x = high << low_bits | low
        if x < n:
            return x


def groups(case, there, symmetric, epoch):
    """Each end of each edge: its node, the other one, the relation, whether it is the tail, and the nodes that take the other's place in
    this epoch."""
    order, begin = case.order
    place = np.argsort(order)
    by_relation = reads_relations(case.task)
    n_given = len(there) // (2 if case.dataset.get("undirected") == "yes" else 1) if by_relation else len(there)
    ends = []
    for t, v, u in zip(*np.nonzero(there[:n_given])):
        relation = int(t) if by_relation else 0
        ends.append((int(place[v]), int(place[u]), relation, bool(v > u) if symmetric else True))
        if not symmetric:
            ends.append((int(place[u]), int(place[v]), relation, False))
    ends.sort()
    known, n_node, negatives = {end[:3] for end in ends}, int(begin[-1]), case.task["negatives"]
    key = (case.train["seed"] & 0xFFFFFFFF, case.train["seed"] >> 32)
    for part in range(len(begin) - 1):
        mine = [e for e in ends if begin[part] <= e[0] < begin[part + 1]]
        n = len(mine) * negatives
        round_key = [u32(key, 9, part, epoch, 0, i) for i in range(8)]
        at = {feistel(n, round_key, x): x for x in range(n)}
        u = (u32(key, 10, part, epoch, 0, 1) >> 8) / 2 ** 24
        last = [math.floor(n * (int(b) / n_node) + u) for b in begin]
        for j, (row, other, relation, is_tail) in enumerate(mine):
            drawn = []
            for k in range(negatives):
                x = at[j * negatives + k]
                q = next(q for q in range(len(begin) - 1) if last[q + 1] > x)
                to = int(begin[q]) + (u32(key, 10, part, epoch, x, 0) * int(begin[q + 1] - begin[q]) >> 32)
                if to != row and (row, to, relation) not in known:
                    drawn.append(int(order[to]))
            yield int(order[row]), int(order[other]), relation, is_tail, drawn


def parameters(weights, dtype, seed):
    """The weights as tensors; with a seed they are roundings away."""
    random = np.random.default_rng(seed)
    away = lambda w: 1 if seed is None else 1 + ROUNDING * random.choice([-1.0, 1.0], w.shape)
    return {k: torch.tensor(w.astype(np.float64) * away(w)).to(dtype) for k, w in weights.items()}


def gradients(case, weights, dtype=torch.float64, seed=None):
    """The training loss at these weights and its gradient: a number and {name: array}. With a seed, those that rounding may give."""
    p = {k: w.requires_grad_() for k, w in parameters(weights, dtype, seed).items()}
    model = Model(case, dtype, seed)
    model.p = p
    loss = model.loss(model.rounded(model.logits(p, True)), case.splits["train"])
    loss.backward()
    return loss.item(), {k: (v.grad if v.grad is not None else torch.zeros_like(v)).double().numpy() for k, v in p.items()}


def logits(case, weights, dtype=torch.float64, seed=None):
    """The logits of an evaluation with these weights, likewise."""
    with torch.no_grad():
        return Model(case, dtype, seed).logits(parameters(weights, dtype, seed), False).double().numpy()
