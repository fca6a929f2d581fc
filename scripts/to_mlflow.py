#!/usr/bin/env python3
"""Record runs of trainerd in MLflow, by its REST interface: scripts/to_mlflow.py [--experiment NAME] [--group GROUP] [FOLDER ...]

    export MLFLOW_TRACKING_URI=http://127.0.0.1:5000
    scripts/to_mlflow.py runs/cora                      # a folder of results
    scripts/to_mlflow.py --group cora-5d2f81c0          # all finished jobs of a group of the daemon, which trainctl lists

Each run becomes a run of the experiment: the job's keys are its parameters, the numbers of metrics.jsonl its metrics by epoch, and those
of the best epoch best_valid and best_test. Files stay where they are; the tag trainerd.folder says where. A folder that is recorded
already is passed over, and one that was recorded by halves is recorded again. Needs nothing but the standard library. A server that asks
for it gets MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

EPOCH_METRICS = ("loss", "lr", "epoch_s", "bytes_received")
SPLITS = ("train_", "valid_", "test_")  # of the metrics of train.metrics by their names
NOT_PARAMETERS = ("name", "output")
METRICS_MOST, PARAMETERS_MOST, VALUE_MOST = 1000, 100, 500  # of one request, and of a parameter, as MLflow takes them


class Failure(Exception):
    pass


class Server:
    def __init__(self, address):
        self.address = address.rstrip("/")
        self.headers = {"Content-Type": "application/json"}
        token, user = os.environ.get("MLFLOW_TRACKING_TOKEN"), os.environ.get("MLFLOW_TRACKING_USERNAME")
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        elif user:
            word = f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}".encode()
            self.headers["Authorization"] = "Basic " + base64.b64encode(word).decode()

    def ask(self, what, fields, query=None):
        """The answer as an object; None where the server says that there is no such thing."""
        url = f"{self.address}/api/2.0/mlflow/{what}" + ("?" + urllib.parse.urlencode(query) if query else "")
        body = None if query else json.dumps(fields).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, self.headers), timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if "RESOURCE_DOES_NOT_EXIST" in text:
                return None
            raise Failure(f"{url}: {error.code} {error.reason}: {text[:500]}") from None
        except (OSError, ValueError) as error:
            raise Failure(f"{url}: {error}; expected an MLflow server (MLFLOW_TRACKING_URI)") from None

    def experiment(self, name):
        found = self.ask("experiments/get-by-name", None, {"experiment_name": name})
        if found is not None:
            return found["experiment"]["experiment_id"]
        return self.ask("experiments/create", {"name": name})["experiment_id"]

    def runs_of(self, experiment, folder):
        """Runs of this folder that are there already."""
        quoted = folder.replace("\\", "\\\\").replace("'", "\\'")
        fields = {"experiment_ids": [experiment], "filter": f"tags.`trainerd.folder` = '{quoted}'", "max_results": 100}
        return [run["info"] for run in self.ask("runs/search", fields).get("runs", [])]


def flatten(job, prefix=""):
    """Keys of the job, "train.lr", with texts as values."""
    for key, value in job.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, json.dumps(value) if isinstance(value, bool) else str(value)


def parameters_of(result):
    return [{"key": key, "value": value[:VALUE_MOST]} for key, value in flatten(result["job"])
            if key.split(".")[0] not in NOT_PARAMETERS]


def metrics_of(folder, result):
    """Numbers of each epoch, and the best; the last line's time is that of the end, in milliseconds."""
    metrics, at = [], 0
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        for line in lines:
            epoch = json.loads(line)
            at = int(1000 * epoch["time"])
            metrics += [{"key": key, "value": epoch[key], "timestamp": at, "step": epoch["epoch"]} for key in epoch
                        if (key in EPOCH_METRICS or key.startswith(SPLITS)) and epoch[key] is not None]
    scores, step = result.get("best") or result["metrics"], (result.get("best") or {}).get("epoch") or 0
    for split in ("valid", "test"):
        value = scores.get(f"{split}_metric", scores.get(split))
        if value is not None:
            metrics.append({"key": f"best_{split}", "value": value, "timestamp": at, "step": step})
    return metrics, at


def pieces(items, n_most):
    return [items[i:i + n_most] for i in range(0, len(items), n_most)]


def record(server, experiment, folder, group):
    """Record one folder; says what it did."""
    try:
        with open(folder / "result.json", encoding="utf-8") as file:
            result = json.load(file)
        parameters, (metrics, ended) = parameters_of(result), metrics_of(folder, result)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}; expected the folder of a run's results") from None
    except (ValueError, KeyError, AttributeError) as error:
        raise Failure(f"{folder}: not the results of a run: {error!r}") from None
    for run in server.runs_of(experiment, str(folder)):
        if run["status"] == "FINISHED":
            return f"{folder}: is there already, as run {run['run_id']}"
        server.ask("runs/delete", {"run_id": run["run_id"]})
    tags = {"trainerd.folder": str(folder), "trainerd.version": result["versions"]["trainerd"],
            "trainerd.metric": result["metric"], **({"trainerd.group": group} if group else {})}
    begun = max(0, ended - int(1000 * result["seconds"]["total"]))
    made = server.ask("runs/create", {"experiment_id": experiment, "run_name": folder.name, "start_time": begun,
                                      "tags": [{"key": key, "value": value} for key, value in tags.items()]})
    run = made["run"]["info"]["run_id"]
    for piece in pieces(parameters, PARAMETERS_MOST):
        server.ask("runs/log-batch", {"run_id": run, "params": piece})
    for piece in pieces(metrics, METRICS_MOST):
        server.ask("runs/log-batch", {"run_id": run, "metrics": piece})
    server.ask("runs/update", {"run_id": run, "status": "FINISHED", "end_time": ended})
    return f"{folder}: run {run}"


def folders_of(group):
    """Folders of a group's jobs that have results, as trainctl says."""
    program = shutil.which("trainctl") or str(pathlib.Path(__file__).resolve().parent.parent / "build/bin/trainctl")
    try:
        listed = subprocess.run([program, "compare", group, "--all", "--json"], stdout=subprocess.PIPE, check=True)
    except OSError as error:
        raise Failure(f"{program}: {error.strerror}; expected trainctl") from None
    except subprocess.CalledProcessError as error:
        raise Failure(f"trainctl compare {group} has failed with exit code {error.returncode}") from None
    runs = [run for setting in json.loads(listed.stdout)["settings"] for run in setting["runs"]]
    return [run["folder"] for run in sorted(runs, key=lambda run: run["job"]) if run["state"] == "SUCCEEDED"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="*", help="a folder of results")
    parser.add_argument("--group", help="a group of the daemon's jobs")
    parser.add_argument("--experiment", default="trainerd", help="the experiment's name in MLflow; default: trainerd")
    parser.add_argument("--tracking-uri", default=os.environ.get("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000"),
                        help="http(s)://HOST:PORT; default: $MLFLOW_TRACKING_URI, or http://127.0.0.1:5000")
    asked = parser.parse_args()
    if not asked.folder and not asked.group:
        parser.error("expected FOLDER or --group GROUP")
    if not asked.tracking_uri.startswith(("http://", "https://")):
        parser.error(f"--tracking-uri is '{asked.tracking_uri}', expected http://HOST:PORT: mlflow server serves a folder or a database there")
    try:
        folders = [(folder, asked.group) for folder in folders_of(asked.group)] if asked.group else []
        folders += [(folder, None) for folder in asked.folder]
        server = Server(asked.tracking_uri)
        experiment = server.experiment(asked.experiment)
        for folder, group in folders:
            print(record(server, experiment, pathlib.Path(folder).resolve(), group), flush=True)
    except Failure as failure:
        sys.exit(f"to_mlflow: {failure}")


if __name__ == "__main__":
    main()
