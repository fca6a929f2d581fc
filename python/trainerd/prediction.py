"""Predictions of a trained model on the same or another graph (docs/predict.md), by a daemon or by `trainerd --predict` here."""
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .client import Client
from .errors import MissingInput, UsageError, error_of
from .results import Result
from .toml_text import job_text, settings_of

DONE = "results in "  # the end of a job's last line
REASON = "trainerd: "  # the begin of each line of a failure's reason


def predict(run: str | os.PathLike[str], data: Any, *, client: Client | None = None, name: str | None = None,
            embeddings: str | None = None, output: str | os.PathLike[str] | None = None, set: Mapping[str, Any] | Sequence[str] | None = None,
            program: str | os.PathLike[str] | None = None, timeout: float | None = None) -> Result:
    """Predict, wait, and return the result: `.predictions()`, `.logits()`, `.embeddings()`, `.json["metrics"]`.

    run         the folder of a training's results, whose best weights are used, or a file of weights in it
    data        a data folder's path, a graph of PyTorch Geometric or DGL, or a dict: the [dataset] section of a job file
    client      the daemon that runs it; default: `trainerd --predict` on this machine
    name        of the job; default: the training's
    embeddings  a layer, by the name of its weights ("convs.0"): also write its output for each node
    output      the folder to write; default: runs/<name>-predict-<time> or, under a daemon, -<job>
    set         further settings of the job: {"workers.count": 2, "partition.parts": 4}
    program     of the program trainerd; default: in the folder $TRAINERD_BIN, else the one on PATH
    timeout     seconds, after which the prediction is stopped and TimeoutError raised
    """
    model = os.path.abspath(os.path.expanduser(run))
    if not os.path.exists(model):
        raise MissingInput(f"'{model}': No such file or directory, expected the folder of a training's results, or a file of weights in it")
    folder = Path(model if os.path.isdir(model) else os.path.dirname(model))
    job: dict[str, Any] = {"name": name or Result(folder).json.get("name", "model")}
    if output is not None or embeddings is not None:
        given = (("dir", None if output is None else os.path.expanduser(output)), ("embeddings", embeddings))
        job["output"] = {key: value for key, value in given if value is not None}
    with tempfile.TemporaryDirectory(prefix="trainerd-predict-") as temporary:
        job["dataset"] = _dataset_of(data, Path(temporary, "data"))
        if client is None:
            return predict_here(model, job, settings_of(set), program, timeout, Path(temporary))
        submitted = client.submit(job, predict=model, set=set)
        try:
            return submitted.wait(timeout)
        except (TimeoutError, KeyboardInterrupt):
            submitted.cancel()  # it must not run on without its data
            submitted.wait(check=False)
            raise


def _dataset_of(data: Any, folder: Path) -> dict[str, Any]:
    """The [dataset] section; a graph in memory is written to the folder."""
    if isinstance(data, Mapping):
        return dict(data)
    if isinstance(data, (str, os.PathLike)):
        return {"path": os.path.abspath(os.path.expanduser(data))}
    from .data import from_dgl, from_pyg
    if hasattr(data, "canonical_etypes"):
        return {"path": from_dgl(data, folder, predict_only=True)}
    if hasattr(data, "edge_index") or hasattr(data, "adj_t") or hasattr(data, "edge_types"):
        return {"path": from_pyg(data, folder, predict_only=True)}
    raise UsageError(f"data is a {type(data).__name__}, expected a folder's path, a graph of PyTorch Geometric or DGL, or a dict: [dataset]")


def find_program(given: str | os.PathLike[str] | None) -> str:
    """The program trainerd: the given path, else the one in the folder $TRAINERD_BIN, else the one on PATH."""
    folder = os.environ.get("TRAINERD_BIN")
    found = os.path.expanduser(given) if given is not None else os.path.join(folder, "trainerd") if folder else shutil.which("trainerd")
    if found is None:
        raise MissingInput("the program trainerd is not on PATH: expected program=PATH, $TRAINERD_BIN, or client=Client() for a daemon")
    return found


def predict_here(model: str, job: dict[str, Any], settings: list[str], program: str | os.PathLike[str] | None, timeout: float | None,
                  temporary: Path) -> Result:
    found = find_program(program)
    file = temporary / "predict.toml"
    file.write_text(job_text(job), encoding="utf-8")
    command = [found, "--predict", model, "--config", str(file)]
    for setting in settings:
        command += ["--set", setting]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   errors="replace")
    except OSError as error:
        raise MissingInput(f"cannot run '{found}': {error.strerror}") from error
    with process:
        try:
            said = process.communicate(timeout=timeout)[1]
        except BaseException as error:
            process.terminate()
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"the prediction has not ended after {timeout:g} s, and is stopped") from None
            raise
    lines = said.strip().split("\n")
    if process.returncode != 0:
        code = process.returncode if process.returncode > 0 else 70
        reasons = [line.removeprefix(REASON) for line in lines if line.startswith(REASON)]
        raise error_of(code, "\n".join(reasons) or lines[-1] or f"trainerd ended with {process.returncode}")
    return Result(os.path.abspath(lines[-1].rpartition(DONE)[2]))
