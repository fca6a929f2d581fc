"""Ten steps of Adam on links: the losses and the last weights beside PyTorch's Adam and autograd in float64, from the same weights
and pairs, for 1, 3 and 8 parts of one graph, on 1, 2 and 4 workers."""
import numpy as np
import torch

import oracle
from draw import Case, sbm

N_STEP, N_NODE, LR, EPS = 10, 40, 0.01, 1e-4  # a small epsilon would make steps of what rounding leaves of gradients that cancel
LOSS, WEIGHTS = 1e-5, 1e-4  # relative; ReLU and the margin turn at rounding
CASES = (("gcn", {}, {}), ("sage", {"decoder": "mlp"}, {}), ("gat", {"sampling": "ends", "negatives": 3}, {}),
         ("gcn", {"negatives": 4}, {"loss": "cross_entropy"}), ("sage", {"decoder": "mlp", "negatives": 2}, {"loss": "margin"}),
         ("rgcn", {"decoder": "distmult"}, {}), ("rgcn", {"decoder": "distmult", "negatives": 4}, {"loss": "cross_entropy"}))


def case_of(kind, task, train, n_part):
    rng = np.random.default_rng(7)
    case = Case()
    case.n, case.model = N_NODE, {"kind": kind, "hidden": 8, "layers": 2}
    if kind == "gat":
        case.model |= {"heads": 2, "activation": "elu"}
    case.edges = np.array(sbm(rng, N_NODE), dtype=np.int64).reshape(-1, 2).T
    n_edge = case.edges.shape[1]
    case.edge_type = np.arange(n_edge) % 3
    case.edge_weight = np.ones(n_edge, np.float32)
    case.edge_features = np.zeros((n_edge, 2), np.float32)
    case.features = rng.standard_normal((N_NODE, 6)).astype(np.float32)
    case.labels = np.zeros(N_NODE, np.int64)
    case.splits = {"train": np.arange(N_NODE), "valid": np.zeros(0, np.int64), "test": np.zeros(0, np.int64)}
    case.part = np.arange(N_NODE) % n_part
    case.partition = {"parts": n_part, "method": "file"}
    case.dataset = {"undirected": "yes"}
    case.task = {"kind": "link", "channels": 5, "negatives": 1, "valid_share": 0.0, "test_share": 0.0, **task}
    case.train = {"epochs": N_STEP, "optimizer": "adam", "lr": LR, "epsilon": EPS, "seed": 3, **train}
    case.exchange = {}
    return case


def expected(case, initial):
    p = {k: torch.tensor(w.astype(np.float64)).requires_grad_() for k, w in initial.items()}
    model, adam, losses = oracle.Model(case, torch.float64, None), torch.optim.Adam(p.values(), lr=LR, eps=EPS), []
    model.p = p
    for model.epoch in range(N_STEP):
        adam.zero_grad()
        loss = model.loss(model.logits(p, True), case.splits["train"])
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return np.array(losses), {k: w.detach().numpy() for k, w in p.items()}


def check(run, fail):
    """Raises what `fail` makes of two texts. Returns the number of cases."""
    n = 0
    for kind, task, train in CASES:
        for n_part, n_worker in ((1, 1), (3, 2), (8, 4)):
            case = case_of(kind, task, train, n_part)
            case.write(run.folder)
            way = {"workers": n_worker, "threads": 1, "prefetch": 1, "device": "cpu", "memory": "narrow", "schedule": "sequential",
                   "recompute": "auto", "spill": False, "ranks": [p * n_worker // n_part for p in range(n_part)]}
            result = run.run(case, way)
            losses, weights = expected(case, result["initial"])
            found = np.array([float.fromhex(loss) for loss in result["loss"][:N_STEP]])
            what = f"{kind}, {task}, {train}, {n_part} parts"
            if not (np.abs(found - losses) <= LOSS * np.abs(losses)).all():
                raise fail("losses of ten steps", f"{found}, expected {losses}: {what}")
            for name, right in weights.items():
                if not np.linalg.norm(result["last"][name] - right) <= WEIGHTS * np.linalg.norm(right) + WEIGHTS * LR:
                    raise fail("weights after ten steps", f"{name}: {result['last'][name]}, expected {right}: {what}")
            n += 1
    return n
