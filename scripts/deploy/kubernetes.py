"""Checks contrib/kubernetes: kustomize builds it, schemas accept it, its parts find each other, and its
containers work as plain processes."""

import base64
import shutil
import subprocess

from ruamel.yaml import YAML
from schemas import validate
from trial import SOURCE, TOOLS, Trial, check, get, wait_for


def built(folder):
    """All objects of the example."""
    kubectl = shutil.which(str(TOOLS / "deploy/kubectl")) or shutil.which("kubectl")
    if not kubectl:
        return None
    shutil.copytree(SOURCE / "contrib/kubernetes", folder)
    example = folder / "overlays/example"
    (example / "secret.env").write_text("REDIS_PASSWORD=a-secret\n")
    done = subprocess.run([kubectl, "kustomize", example], capture_output=True, text=True)
    check(done.returncode == 0 and not done.stderr, f"kustomize complains: {done.stderr.strip()}")
    return list(YAML(typ="safe").load_all(done.stdout))


class Objects:
    def __init__(self, objects):
        self.all = objects

    def of(self, kind):
        return [item for item in self.all if item["kind"] == kind]

    def one(self, kind, name):
        found = [item for item in self.of(kind) if item["metadata"]["name"] == name]
        check(len(found) == 1, f"there is no {kind} {name}")
        return found[0]

    def workloads(self):
        return self.of("Deployment") + self.of("StatefulSet")

    def selected(self, labels):
        """The workloads whose pods have these labels."""
        labelled = lambda item: item["spec"]["template"]["metadata"]["labels"].items()
        return [item for item in self.workloads() if labels.items() <= labelled(item)]

    def variables(self, pod, container):
        """The environment of a container."""
        variables = {}
        # As the cluster does: a Service is a variable of every pod that does not refuse it.
        if pod.get("enableServiceLinks", True):
            for service in self.of("Service"):
                variables[service["metadata"]["name"].upper().replace("-", "_") + "_PORT"] = "tcp://10.0.0.1:9464"
        for source in container.get("envFrom", []):
            variables.update(self.one("ConfigMap", source["configMapRef"]["name"])["data"])
        for variable in container.get("env", []):
            value = variable.get("value")
            if value is None:
                key = variable["valueFrom"]["secretKeyRef"]
                data = self.one("Secret", key["name"])["data"]
                check(key["key"] in data, f"the secret has no {key['key']}")
                value = base64.b64decode(data[key["key"]]).decode()
            variables[variable["name"]] = value
        return variables


def check_references(objects):
    """Everything that selects pods selects some, and names a port that they have."""
    for item in objects.all:
        spec = item.get("spec", {})
        kind, name = item["kind"], item["metadata"]["name"]
        labels = {
            "Service": lambda: spec["selector"],
            "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
            "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"],
        }.get(kind)
        if not labels:
            continue
        pods = objects.selected(labels())
        check(len(pods) == 1, f"{kind} {name} selects {len(pods)} workloads")
        ports = {port["name"] for box in pods[0]["spec"]["template"]["spec"]["containers"] for port in box["ports"]}
        rules = [rule for rule in spec.get("ingress", [])]
        named = [port["port"] for rule in rules for port in rule["ports"]]
        named += [port["targetPort"] for port in spec.get("ports", [])] if kind == "Service" else []
        check(set(named) <= ports, f"{kind} {name} names the ports {named}, and the pods have {ports}")
        for source in [source for rule in rules for source in rule.get("from", [])]:
            labels = source["podSelector"]["matchLabels"]
            check(objects.selected(labels), f"{kind} {name} lets in {labels}, which no pod has")
    for item in objects.of("ServiceMonitor"):
        wanted = item["spec"]["selector"]["matchLabels"].items()
        services = [each for each in objects.of("Service") if wanted <= each["metadata"].get("labels", {}).items()]
        check(len(services) == 1, f"the ServiceMonitor selects {len(services)} services")
        ports = {port["name"] for port in services[0]["spec"]["ports"]}
        check(item["spec"]["endpoints"][0]["port"] in ports, "the ServiceMonitor names no port of its service")


def check_security(name, pod):
    check(pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0, f"{name} runs as root")
    for container in pod["containers"]:
        context = container["securityContext"]
        check(context["readOnlyRootFilesystem"], f"{name} can write its files")
        check(context["capabilities"]["drop"] == ["ALL"], f"{name} keeps capabilities")
        check(context["allowPrivilegeEscalation"] is False, f"{name} can gain rights")


def try_fleet(image):
    with Trial(image) as trial:
        found = built(trial.folder / "kubernetes")
        if found is None:
            print("deploy-check: NO KUBECTL: contrib/kubernetes is not checked")
            return
        validated = validate(found)
        objects = Objects(found)
        check_references(objects)
        for item in objects.workloads():
            check_security(item["metadata"]["name"], item["spec"]["template"]["spec"])

        deployment = objects.one("Deployment", "baton")["spec"]
        pod = deployment["template"]["spec"]
        (container,) = pod["containers"]
        variables = objects.variables(pod, container)
        host, port = variables["REDIS_URL"].removeprefix("redis://").split(":")
        service = objects.one("Service", host)["spec"]
        check(service["ports"][0]["port"] == int(port), f"the service {host} has another port than {port}")
        egress = objects.one("NetworkPolicy", "baton")["spec"]["egress"]
        check(int(port) in [rule["ports"][0]["port"] for rule in egress], f"the policy lets no node reach port {port}")

        (redis,) = objects.selected(service["selector"])
        redis_pod = redis["spec"]["template"]["spec"]
        (box,) = redis_pod["containers"]
        probe = box["readinessProbe"]["exec"]["command"]
        trial.start_redis(box["command"], objects.variables(redis_pod, box), probe)

        trial.mapped = {f"{host}:{port}": f"127.0.0.1:{trial.redis_port}"}
        start = lambda n: trial.start_baton(f"node-{n}", container["args"], variables)
        nodes = [start(n) for n in range(deployment["replicas"])]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for process, _, (address, listens) in nodes:
            for kind in ["readinessProbe", "livenessProbe"]:
                ask = container[kind]["httpGet"]
                check(ports[ask["port"]] == listens, f"the {kind} asks port {ask['port']}, the node listens on {listens}")
                said = lambda: get(f"http://{address}{ask['path']}")
                check_alive = lambda: check(process.poll() is None, f"{process.name} ended: {trial.log(process)}")
                wait_for(f"yes to the {kind}", lambda: check_alive() or said()[0] == 200)
            wait_for("health", lambda: get(f"http://{address}/healthz")[0] == 200)
        trial.check_fleet(nodes[0][1], len(nodes))
        (monitor,) = objects.of("ServiceMonitor")
        scraped = get(f"http://{nodes[0][2][0]}{monitor['spec']['endpoints'][0]['path']}")
        check("\nbaton_up{" in scraped[1], "the ServiceMonitor's path has no metrics")

        # A probe that a Redis that is away turns red would restart every node.
        trial.processes[0].kill()
        ask = container["readinessProbe"]["httpGet"]["path"]
        wait_for("red readiness without Redis", lambda: get(f"http://{nodes[0][2][0]}{ask}")[0] == 503)
        wait_for("red health without Redis", lambda: get(f"http://{nodes[0][2][0]}/healthz")[0] == 503)
        ask = container["livenessProbe"]["httpGet"]["path"]
        check(get(f"http://{nodes[0][2][0]}{ask}")[0] == 200, "the liveness probe restarts nodes when Redis is away")
        trial.stop([process for process, _, _ in nodes], pod["terminationGracePeriodSeconds"])
    print(f"deploy-check: kubernetes: {validated}; {len(nodes)} nodes and the server ran as processes")
