"""Predictions of a trained model on the same or another graph (docs/predict.md), by a daemon or by `trainerd --predict` here."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from .client import Client
from .errors import MissingInput, UsageError, warn
from .programs import Child, find_program, warning_of
from .results import Result
from .sources import Source
from .toml_text import job_text, settings_of

if TYPE_CHECKING:
    from .arrays import Array

DONE = "results in "  # the end of a job's last line


class Options(TypedDict, total=False):
    """Options of every prediction: see `predict`."""

    client: Client | None
    name: str | None
    embeddings: str | None
    output: str | os.PathLike[str] | None
    set: Mapping[str, Any] | Sequence[str] | None
    program: str | os.PathLike[str] | None
    timeout: float | None


@overload
def predict(run: str | os.PathLike[str] | Result, data: Any, *, pairs: Any, **options: Unpack[Options]) -> Array: ...
@overload
def predict(run: str | os.PathLike[str] | Result, data: Any, *, nodes: Any, best: int = 10, known: bool = False,
            relation: int | None = None, **options: Unpack[Options]) -> tuple[Array, Array]: ...
@overload
def predict(run: str | os.PathLike[str] | Result, data: Any, **options: Unpack[Options]) -> Result: ...


def predict(run: str | os.PathLike[str] | Result, data: Any, *, pairs: Any = None, nodes: Any = None, best: int = 10, known: bool = False,
            relation: int | None = None, client: Client | None = None, name: str | None = None, embeddings: str | None = None,
            output: str | os.PathLike[str] | None = None, set: Mapping[str, Any] | Sequence[str] | None = None,
            program: str | os.PathLike[str] | None = None, timeout: float | None = None) -> Any:
    """Predict, wait, and return the result: `.predictions()`, `.logits()`, `.embeddings()`, `.json["metrics"]`.

    With a model of links: the scores of pairs, float32 [n], or the best partners of nodes and their scores, int64 and float32
    [m, best]. Where a node has fewer partners, they are -1 and NaN.

        scores = trainerd.predict(result, data, pairs=[[0, 5], [7, 12]])
        partners, scores = trainerd.predict(result, data, nodes=[0, 5], best=3)

    run         a training's result or its folder, whose best weights are used, or a file of weights in it
    data        a data folder's path, a graph of PyTorch Geometric or DGL, a dict of arrays, or a dict: the [dataset] section of a job file
    pairs       node numbers [2, n], heads and tails; with a decoder that reads relations [3, n], the third row
                relations
    nodes       node numbers [m]
    best        number of partners of each of the nodes
    known       nodes that an edge of the graph joins with the node may be partners
    relation    of the partners, with a decoder of relations
    client      the daemon that runs it; default: `trainerd --predict` on this machine
    name        of the job; default: the training's
    embeddings  a layer, by the name of its weights ("convs.0"), or its activation ("acts.0"): also write its output for each node
    output      the folder to write; default: runs/<name>-predict-<time> or, under a daemon, -<job>; of pairs and nodes no folder stays
    set         further settings of the job: {"workers.count": 2, "partition.parts": 4}
    program     of the program trainerd; default: that in $TRAINERD_BIN, in this package, or on PATH
    timeout     seconds, after which the prediction is stopped and TimeoutError raised
    """
    if pairs is not None and nodes is not None:
        raise UsageError("pairs and nodes are both given, expected one of them: each call returns the answer to one")
    model = os.path.abspath(run.folder if isinstance(run, Result) else os.path.expanduser(run))
    if not os.path.exists(model):
        raise MissingInput(f"'{model}': No such file or directory, expected the folder of a training's results, or a file of weights in it")
    folder = Path(model if os.path.isdir(model) else os.path.dirname(model))
    trained = Result(folder).json if name is None or (folder / "result.json").is_file() else {}
    job: dict[str, Any] = {"name": name or trained.get("name", "model")}
    with tempfile.TemporaryDirectory(prefix="trainerd-predict-") as temporary:
        here = Path(temporary)
        if pairs is not None or nodes is not None:
            job["predict"] = _asked(here, pairs, nodes, best, known, relation)
            output = here / "out" if output is None else output
        given = (("dir", None if output is None else os.path.expanduser(output)), ("embeddings", embeddings))
        job["output"] = {key: value for key, value in given if value is not None}
        with Source(data, None if client is None else here / "data", predict_only=True, numbers="outputs" in trained.get("dataset", {})) as source:
            job["dataset"] = source.section
            result = (predict_here(model, job, settings_of(set), program, timeout) if client is None
                      else predict_there(client, model, job, set, timeout))
        if pairs is not None:
            return result.array("scores.npy")
        if nodes is None:
            return Result(result.folder, result.json, data)
        return (result.array("partners.npy"), result.array("partner_scores.npy"))


def _asked(folder: Path, pairs: Any, nodes: Any, best: int, known: bool, relation: int | None) -> dict[str, Any]:
    """The section [predict] of what a model of links is asked."""
    from .arrays import np
    from .tensors import array_of
    name, values = ("pairs", pairs) if nodes is None else ("nodes", nodes)
    array, path = array_of(values), folder / f"{name}.npy"
    np.save(path, np.ascontiguousarray(array if array.size else array.astype(np.int64)))
    asked: dict[str, Any] = {name: path} if nodes is None else {name: path, "best": best, "known": known}
    return asked if relation is None else {**asked, "relation": relation}


def predict_there(client: Client, model: str, job: dict[str, Any], set: Mapping[str, Any] | Sequence[str] | None, timeout: float | None) -> Result:
    submitted = client.submit(job, predict=model, set=set)
    try:
        return submitted.wait(timeout)
    except (TimeoutError, KeyboardInterrupt):
        submitted.cancel()  # it must not run on without its data
        submitted.wait(check=False)
        raise


def predict_here(model: str, job: dict[str, Any], settings: list[str], program: str | os.PathLike[str] | None, timeout: float | None) -> Result:
    found = find_program(given=program)
    with tempfile.TemporaryDirectory(prefix="trainerd-predict-") as temporary:
        file = Path(temporary, "predict.toml")
        file.write_text(job_text(job), encoding="utf-8")
        child = Child(found, ["--predict", model, "--config", str(file), *(word for setting in settings for word in ("--set", setting))])
        try:
            if not child.wait(timeout):
                raise TimeoutError(f"the prediction has not ended after {timeout:g} s, and is stopped")
            for line in child.lines(temporary):
                if (said := warning_of(line)) is not None:
                    warn(said)
        except BaseException:
            child.stop()
            raise
        return Result(os.path.abspath(child.result(temporary).rpartition(DONE)[2]))
