"""Checks contrib/compose: docker-compose reads it, and its services work as plain processes."""

import os
import shutil
import subprocess

from ruamel.yaml import YAML
from trial import SOURCE, Trial, check, get, seconds, wait_for

SECRETS = "/run/secrets/"


def resolved(folder):
    """The file as docker-compose understands it, in a folder with secrets; None without docker-compose."""
    shutil.copytree(SOURCE / "contrib/compose", folder)
    (folder / "secrets").mkdir(exist_ok=True)
    for secret in ["redis_password", "page_token"]:
        (folder / "secrets" / secret).write_text(f"a-secret-for-{secret}\n")
    file = folder / "compose.yaml"
    if not shutil.which("docker-compose"):
        return None
    # It is a program in Python, which must not find our modules.
    done = subprocess.run(
        ["docker-compose", "--file", file, "config"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    check(done.returncode == 0, f"docker-compose refuses the file: {done.stderr.strip()}")
    return YAML(typ="safe").load(done.stdout)


def command(service):
    # docker-compose writes a dollar twice, so that its output can be read again.
    return [word.replace("$$", "$") for word in service["command"]]


def try_fleet(image):
    with Trial(image) as trial:
        compose = resolved(trial.folder / "compose")
        if compose is None:
            print("deploy-check: NO DOCKER-COMPOSE: contrib/compose is not checked")
            return
        services = compose["services"]
        node, page, redis = (services[name] for name in ["node", "page", "redis"])
        for name, service in services.items():
            check(service["restart"] == "unless-stopped", f"{name} does not come back after a crash")
            given = {secret["source"] for secret in service["secrets"]}
            text = f"{service['command']} {service.get('environment')}"
            named = {word for word in compose["secrets"] if f"{SECRETS}{word}" in text}
            check(given == named, f"{name} is given {given} and reads {named}")
            for port in service.get("ports", []):
                check(str(port).startswith("127.0.0.1:"), f"{name} publishes {port} to other machines")

        host = node["environment"]["REDIS_URL"].removeprefix("redis://").split(":")[0]
        check(services.get(host) is redis, f"the nodes ask {host}, and no service has this name")
        trial.mapped = {f"{host}:6379": f"127.0.0.1:{trial.redis_port}", SECRETS: f"{trial.folder}/compose/secrets/"}
        server = [trial.local(word) for word in command(redis)]
        kind, probe = redis["healthcheck"]["test"]
        check(kind == "CMD-SHELL", f"a health check of the kind {kind}")
        trial.start_redis(server, {}, ["sh", "-c", trial.local(probe.replace("$$", "$"))])

        replicas = node["deploy"]["replicas"]
        nodes = [trial.start_baton(f"node-{n}", command(node), node["environment"]) for n in range(replicas)]
        for process, variables, _ in nodes:
            trial.wait_until_healthy(process, variables)
        trial.check_fleet(nodes[0][1], replicas)

        process, variables, (address, port) = trial.start_baton("page", command(page), page["environment"])
        trial.wait_until_healthy(process, variables)
        published = page["ports"][0].split(":")
        check(published[2].split("/")[0] == str(port), f"the page listens on {port}, and {page['ports']} is published")
        # What the browser of this machine asks for, whatever the port.
        names = {"Host": ":".join(published[:2])}
        check(get(f"http://{address}/api/errors", names)[0] == 401, "the page needs no token")
        bearer = {**names, "Authorization": "Bearer a-secret-for-page_token"}
        wait_for("page", lambda: get(f"http://{address}/api/errors", bearer)[0] == 200)

        trial.stop([process], seconds(page["stop_grace_period"]))
        trial.stop([process for process, _, _ in nodes], seconds(node["stop_grace_period"]))
    print(f"deploy-check: compose: docker-compose accepts it; {replicas} nodes, the page and the server ran as processes")
