"""A small MLflow tracking server for tests: the requests that scripts/to_mlflow.py sends, with MLflow's limits. Prints its port on standard
error; POST /state gives all runs, POST /break lets the next log-batch fail."""
import http.server
import json
import re
import sys
import urllib.parse

experiments, runs, broken = {}, {}, []


class Refusal(Exception):
    pass


def answer(what, fields):
    if what == "experiments/get-by-name":
        if fields["experiment_name"] not in experiments:
            raise Refusal("RESOURCE_DOES_NOT_EXIST")
        return {"experiment": {"experiment_id": experiments[fields["experiment_name"]]}}
    if what == "experiments/create":
        experiments[fields["name"]] = str(len(experiments) + 1)
        return {"experiment_id": experiments[fields["name"]]}
    if what == "runs/create":
        info = {"run_id": f"r{len(runs)}", "experiment_id": fields["experiment_id"], "run_name": fields["run_name"], "status": "RUNNING",
                "start_time": fields["start_time"]}
        runs[info["run_id"]] = {"info": info, "tags": {tag["key"]: tag["value"] for tag in fields["tags"]}, "params": {}, "metrics": []}
        return {"run": {"info": info}}
    if what == "runs/search":
        key, value = re.fullmatch(r"tags\.`(.*)` = '(.*)'", fields["filter"]).groups()
        return {"runs": [run for run in runs.values() if run["tags"].get(key) == value and run["info"]["experiment_id"] in fields["experiment_ids"]]}
    run = runs[fields["run_id"]]
    if what == "runs/delete":
        del runs[fields["run_id"]]
    elif what == "runs/update":
        run["info"].update(status=fields["status"], end_time=fields["end_time"])
    elif what == "runs/log-batch":
        if broken:
            broken.pop()
            raise Refusal("INTERNAL_ERROR")
        params, metrics = fields.get("params", []), fields.get("metrics", [])
        if len(params) > 100 or len(metrics) > 1000 or any(len(param["value"]) > 500 for param in params):
            raise Refusal("INVALID_PARAMETER_VALUE")
        run["params"].update({param["key"]: param["value"] for param in params})
        run["metrics"] += [[metric["key"], metric["step"], metric["value"], metric["timestamp"]] for metric in metrics]
    else:
        raise Refusal("ENDPOINT_NOT_FOUND")
    return {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.do(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query)))

    def do_POST(self):
        self.do(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

    def do(self, fields):
        path, code = urllib.parse.urlsplit(self.path).path, 200
        try:
            if path == "/break":
                broken.append(True)
            body = list(runs.values()) if path in ("/state", "/break") else answer(path.removeprefix("/api/2.0/mlflow/"), fields)
        except Refusal as refusal:
            code, body = 400, {"error_code": str(refusal)}
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"port={server.server_port}", file=sys.stderr, flush=True)
server.serve_forever()
