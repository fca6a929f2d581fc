#!/usr/bin/env python3
"""A client of the training daemon: docs/protocol.md in Python, with nothing but the standard library.

As a program, one request and its answer, or its stream:

    scripts/trainer_client.py submit config=@job.toml folder=$PWD
    scripts/trainer_client.py status
    scripts/trainer_client.py logs job=7 follow=true
    scripts/trainer_client.py --to tcp:HOST:PORT --secret-file secret version

A value after = is JSON if it parses as JSON, @FILE is the text of a file, and everything else is a text. From Python:

    with Client() as daemon:
        job = daemon.ask("submit", config=open("job.toml").read(), folder=os.getcwd())["job"]
        for event in daemon.stream("watch", job=job):
            print(event)
"""
import argparse
import hmac
import json
import os
import secrets
import socket
import sys


class Refusal(Exception):
    """The daemon refused a request: its reason, and the exit code for a program."""

    def __init__(self, answer):
        super().__init__(answer.get("error", "no reason is given"))
        self.exit_code = answer.get("exit_code", 69)


def default_address():
    if os.geteuid() == 0:
        return "unix:/run/trainerd/trainerd.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/trainerd-{os.geteuid()}"
    return f"unix:{runtime}/trainerd.sock"


class Client:
    def __init__(self, address=None, secret_file=None):
        address = address or os.environ.get("TRAINERD_TO") or default_address()
        kind, _, rest = address.partition(":")
        if kind == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(rest)
        elif kind == "tcp":
            host, _, port = rest.rpartition(":")
            self.socket = socket.create_connection((host.strip("[]"), int(port)))
        else:
            raise ValueError(f"'{address}' is not an address, expected unix:PATH or tcp:HOST:PORT")
        self.lines = self.socket.makefile("r", encoding="utf-8", newline="\n")
        self.id = 0
        if kind == "tcp":
            self.authenticate(secret_file or os.environ["TRAINERD_SECRET_FILE"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()

    def authenticate(self, secret_file):
        """Both sides prove that they know the secret, each for the other's nonce."""
        with open(secret_file, encoding="ascii") as file:
            secret = bytes.fromhex(file.read())
        theirs, mine = self.ask("hello")["nonce"], secrets.token_hex(32)

        def proof(role):
            message = b"trainerd-1-" + role + bytes.fromhex(theirs) + bytes.fromhex(mine)
            return hmac.new(secret, message, "sha512").hexdigest()[:64]

        answer = self.ask("auth", nonce=mine, proof=proof(b"client"))
        if not hmac.compare_digest(answer["proof"], proof(b"server")):
            raise ConnectionError("the daemon does not know the secret")

    def send(self, command, **fields):
        self.id += 1
        request = {"v": 1, "id": self.id, "cmd": command, **fields}
        self.socket.sendall(json.dumps(request).encode() + b"\n")

    def receive(self):
        """The next line for the last request."""
        while True:
            line = self.lines.readline()
            if not line:
                raise ConnectionError("the daemon closed the connection")
            answer = json.loads(line)
            if answer.get("ok") is False:
                raise Refusal(answer)
            if answer["id"] == self.id:
                return answer

    def ask(self, command, **fields):
        self.send(command, **fields)
        return self.receive()

    def stream(self, command, **fields):
        self.send(command, **fields)
        while not (event := self.receive()).get("end"):
            yield event


def read_value(text):
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:
            return file.read()
    try:
        return json.loads(text)
    except ValueError:
        return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", help="unix:PATH or tcp:HOST:PORT; default $TRAINERD_TO")
    parser.add_argument("--secret-file", help="tcp: the file with the secret; default $TRAINERD_SECRET_FILE")
    parser.add_argument("command")
    parser.add_argument("field", nargs="*", help="name=value")
    arguments = parser.parse_args()
    fields = {name: read_value(value) for name, _, value in (field.partition("=") for field in arguments.field)}
    try:
        with Client(arguments.to, arguments.secret_file) as daemon:
            if arguments.command in ("logs", "watch", "metrics"):
                for event in daemon.stream(arguments.command, **fields):
                    print(json.dumps(event), flush=True)
            else:
                print(json.dumps(daemon.ask(arguments.command, **fields)))
    except Refusal as refusal:
        print(f"trainer_client: {refusal}", file=sys.stderr)
        return refusal.exit_code
    except OSError as error:
        print(f"trainer_client: {error}", file=sys.stderr)
        return 69
    return 0


if __name__ == "__main__":
    sys.exit(main())
