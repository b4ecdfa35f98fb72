"""Runs what a file for an engine describes as plain processes on loopback: the same program, the same arguments
and the same variables. Only addresses and folders are mapped to those of this machine."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", SOURCE / "target")).resolve() / "tools"


class Wrong(Exception):
    """Something in a file, or in what came of it, is wrong."""


def check(fact, words):
    if not fact:
        raise Wrong(words)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, ask, seconds=20):
    """Asks until the answer is true. An exception counts as no."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = ask()
            if answer:
                return answer
        except (OSError, Wrong) as error:
            answer = error
        check(time.monotonic() < deadline, f"no {what} after {seconds} s: {answer}")
        time.sleep(0.1)


def seconds(text):
    """`15s` or `1m30s` as a number."""
    units = {"s": 1, "m": 60, "h": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smh])", text))


class Image:
    """What the image adds to a command: its variables and its health check."""

    def __init__(self, program):
        self.program = program
        lines = (SOURCE / "contrib/image/Containerfile").read_text().splitlines()
        words = [line.split(maxsplit=1) for line in lines if line and not line.startswith((" ", "#"))]
        self.variables = dict(rest.split("=", 1) for word, rest in words if word == "ENV")
        checks = [json.loads(rest.split("CMD ", 1)[1]) for word, rest in words if word == "HEALTHCHECK"]
        self.health_check = checks[0][1:]

    def knows(self, command, variables):
        """Checks that the program reads each variable that is meant for it: an unknown one has no effect."""
        done = subprocess.run([self.program, command, "--help"], capture_output=True, text=True)
        check(done.returncode == 0, f"there is no command {command}")
        known = set(re.findall(r"\[env: (\w+)\]", done.stdout)) | {"REDIS_PASSWORD"}
        for name in variables:
            check(name in known, f"baton {command} does not read the variable {name}")


class Trial:
    """Processes that end with the trial, and a folder for what they write."""

    def __init__(self, image):
        self.image = image
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="baton-deploy-"))
        self.processes = []
        self.redis_port = free_port()
        self.mapped = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)

    def local(self, text):
        """The text with addresses and folders of this machine."""
        for theirs, ours in self.mapped.items():
            text = text.replace(theirs, ours)
        return text

    def start(self, name, command, variables):
        log = (self.folder / f"{name}.log").open("w")
        process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        process.name = name
        self.processes.append(process)
        return process

    def log(self, process):
        return "\n".join((self.folder / f"{process.name}.log").read_text().splitlines()[-5:])

    def start_redis(self, command, variables, probe):
        """Runs the server's own command and probe. Only the programs' names lead to wrappers, which add a port."""
        links = self.folder / "bin"
        data = self.folder / "data"
        links.mkdir()
        data.mkdir()
        server = next(filter(None, map(shutil.which, [str(TOOLS / "valkey-server"), "valkey-server", "redis-server"])))
        client = shutil.which("valkey-cli") or shutil.which("redis-cli")
        for name, line in [
            ("valkey-server", f'exec {server} "$@" --port {self.redis_port} --bind 127.0.0.1 --dir {data}'),
            ("valkey-cli", f'exec {client} -p {self.redis_port} "$@"'),
        ]:
            (links / name).write_text(f"#!/bin/sh\n{line}\n")
            (links / name).chmod(0o755)
        variables = {"PATH": f"{links}:/usr/bin:/bin", **variables}
        process = self.start("redis", command, variables)

        def answers():
            check(process.poll() is None, f"the server ended: {self.log(process)}")
            return subprocess.run(probe, env=variables, capture_output=True, timeout=5).returncode == 0

        if client:
            wait_for("healthy server", answers)
        else:
            print("deploy-check: NO REDIS-CLI: the probe of the server is skipped")
            wait_for("server", lambda: socket.create_connection(("127.0.0.1", self.redis_port)))
        return process

    def start_baton(self, name, arguments, variables):
        """Starts the program as the image does, listening on a free port. Returns the process, its variables, and
        the address that answers its HTTP."""
        self.image.knows(arguments[0], [key for key in variables if key.startswith(("BATON_", "REDIS_"))])
        variables = {**self.image.variables, **{key: self.local(value) for key, value in variables.items()}}
        host, port = variables["BATON_HTTP"].rsplit(":", 1)
        check(host == "0.0.0.0", f"{name} listens on {host}, which no probe outside its container reaches")
        address = f"127.0.0.1:{free_port()}"
        variables["BATON_HTTP"] = address
        process = self.start(name, [self.image.program, *map(self.local, arguments)], variables)
        return process, variables, (address, int(port))

    def run_baton(self, arguments, variables):
        """Runs the program to its end, as `exec` in a container does; its output if it succeeds."""
        done = subprocess.run([self.image.program, *arguments], env=variables, capture_output=True, text=True)
        check(done.returncode == 0, f"baton {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def wait_until_healthy(self, process, variables):
        """Waits until the image's health check says yes."""

        def healthy():
            check(process.poll() is None, f"{process.name} ended: {self.log(process)}")
            return self.run_baton(self.image.health_check, variables)

        wait_for(f"healthy {process.name}", healthy)

    def check_fleet(self, variables, nodes):
        """One node generates, the others work, and messages end."""

        def works():
            status = json.loads(self.run_baton(["status", "--json"], variables))
            roles = sorted(node["role"] for node in status["nodes"])
            check(roles == ["generator"] + ["worker"] * (nodes - 1), f"the roles are {roles}")
            return status["done"] > 2

        wait_for("message that ends", works)

    def stop(self, processes, grace):
        """SIGTERM ends them in good order, and before an engine would kill them."""
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + grace
        for process in processes:
            try:
                code = process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                raise Wrong(f"{process.name} needs more than {grace} s to stop") from None
            check(code == 0, f"SIGTERM ended {process.name} with {code}: {self.log(process)}")


def get(url, headers={}):
    """Status and body of the answer to a GET."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
