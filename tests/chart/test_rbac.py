"""The rights that the chart grants are the rights that the code uses: neither fewer nor more.

What the code uses is read from its source: each call of a Kubernetes verb with a named resource, each watched resource.
A call with a resource that cannot be read from the source fails the test, so that nothing slips by.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cotenant.controller.client import kube
from cotenant.controller.composites.kinds import kinds
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.feed.cluster_feed import OBSERVED

ROOT = Path(__file__).parents[2]
COMPOSITES = ROOT / "operator" / "cotenant" / "controller" / "composites"
Render = Callable[..., dict[tuple[str, str], dict[str, Any]]]
RESOURCES = {name: value for name, value in vars(kube).items() if isinstance(value, kube.Resource)}


class Right(NamedTuple):
    group: str
    resource: str
    verb: str


def granted(role: dict[str, Any]) -> set[Right]:
    return {
        Right(group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def calls_in(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Calls of a verb on something that is called kube, whether it is an attribute of something or a name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
        if name.lstrip("_") == "kube" and node.func.attr in {"list", "get", "create", "patch", "delete"}:
            yield node, node.func.attr


def handed_around_in(path: Path) -> set[str]:
    """Resources that a parameter `resource` can be: those that the module passes to its own functions, or that come
    from a builder of manifests which it imports, in pairs with the document."""
    source = path.read_text()
    if "OBSERVED: Final" in source or "REFLECTED: Final" in source:
        return {name for name, value in RESOURCES.items() if value in OBSERVED}
    tree = list(ast.walk(ast.parse(source)))
    firsts = [n.args[0] for n in tree if isinstance(n, ast.Call) and n.args]
    for module in (n.module for n in tree if isinstance(n, ast.ImportFrom) and n.module):
        if module.startswith("cotenant.controller.manifests."):
            builder = ast.parse((ROOT / "operator" / f"{module.replace('.', '/')}.py").read_text())
            firsts += [pair.elts[0] for pair in ast.walk(builder) if isinstance(pair, ast.Tuple) and pair.elts]
    return {first.id for first in firsts if isinstance(first, ast.Name) and first.id in RESOURCES}


def operator_uses() -> Iterator[Right]:
    for resource in OBSERVED:
        yield Right(resource.group, resource.plural, "list")
        yield Right(resource.group, resource.plural, "watch")
    yield from of_composites()
    for path in sorted((ROOT / "operator" / "cotenant" / "controller").rglob("*.py")):
        if path.parent.name == "client" or path == COMPOSITES / "carrying_out.py":
            continue
        for call, verb in calls_in(path):
            first = call.args[0]
            assert isinstance(first, ast.Name), f"{path.name}:{call.lineno}: which resource is {ast.unparse(first)}?"
            candidates = {first.id} if first.id in RESOURCES else handed_around_in(path)
            assert candidates, f"{path.name}:{call.lineno}: which resource is {first.id}?"
            sub = next((k.value for k in call.keywords if k.arg == "subresource"), None)
            suffix = (
                f"/{sub.value}" if isinstance(sub, ast.Constant) and isinstance(sub.value, str) and sub.value else ""
            )
            for resource in (RESOURCES[name] for name in candidates):
                yield Right(resource.group, resource.plural + suffix, verb)


def of_composites() -> Iterator[Right]:
    """Rights for composite kinds: watch each, write its status, read existing objects that it makes, and watch
    objects that it changes."""
    for composite in kinds(ObjectCache()):
        own = composite.resource
        yield from (Right(own.group, own.plural, verb) for verb in ("get", "list", "watch"))
        yield Right(own.group, f"{own.plural}/status", "patch")
        for resource in composite.owns:
            yield from (Right(resource.group, resource.plural, verb) for verb in ("list", "watch"))
    verbs = {"Create": ("create", "get"), "Patch": ("patch", "get"), "Delete": ("delete",)}
    for path in sorted(COMPOSITES.glob("*/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in verbs:
                resource = RESOURCES[ast.unparse(node.args[0])]
                yield from (Right(resource.group, resource.plural, verb) for verb in verbs[node.func.id])


NEVER_READ = {Right("", "secrets", "get")}
"""What is created and not looked at, by a test of the one function that the other side objects are looked at by."""


OF_KUBERNETES = {Right("", "configmaps", "get")}
"""By Kubernetes' own Role `extension-apiserver-authentication-reader`: of one ConfigMap."""


def test_the_operator_reads_one_config_map_by_the_role_that_is_for_it(render: Render) -> None:
    binding = render()["RoleBinding", "cotenant-operator-authentication"]
    assert binding["metadata"]["namespace"] == "kube-system"
    assert binding["roleRef"]["name"] == "extension-apiserver-authentication-reader"


def test_the_operator_may_do_what_it_does_and_nothing_else(render: Render) -> None:
    objects = render()
    everywhere = granted(objects["ClusterRole", "cotenant-operator"])
    at_home = granted(objects["Role", "cotenant-operator"])
    certificates = granted(objects["Role", "cotenant-metrics-serving"])
    assert {right.resource for right in at_home} == {"leases", "endpointslices"}
    assert certificates == {Right("", "secrets", "get"), Right("", "secrets", "patch")}
    uses = set(operator_uses()) - OF_KUBERNETES
    assert sorted(everywhere | at_home | certificates) == sorted(uses)
    assert not NEVER_READ & (everywhere | at_home)


METHODS = {
    "read_node": [Right("", "nodes", "get")],
    "read_runtime_class": [Right("node.k8s.io", "runtimeclasses", "get")],
    "list_pod_for_all_namespaces": [Right("", "pods", "list"), Right("", "pods", "watch")],
    "create_cluster_custom_object": [Right("cotenant.dev", "gpunodes", "create")],
    "get_cluster_custom_object": [Right("cotenant.dev", "gpunodes", "get")],
    "list_cluster_custom_object": [Right("cotenant.dev", "gpunodes", "list")],
    "patch_cluster_custom_object": [Right("cotenant.dev", "gpunodes", "patch")],
    "create_token_review": [Right("authentication.k8s.io", "tokenreviews", "create")],
    "create_subject_access_review": [Right("authorization.k8s.io", "subjectaccessreviews", "create")],
    "patch_cluster_custom_object_status": [Right("cotenant.dev", "gpunodes/status", "patch")],
}


def test_the_agent_may_do_what_it_does_and_nothing_else(render: Render) -> None:
    clients = {"_core", "_custom", "_classes", "_authentication", "_authorization"}
    used = {
        node.attr
        for path in (ROOT / "worker" / "cotenant_agent" / "reports").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr in clients
        and node.attr != "api_client"
    }
    # The kubelet asks the API server whether the agent may read what it runs (`kubelet_containers`).
    rights = {right for method in used for right in METHODS[method]} | {Right("", "nodes/stats", "get")}
    assert granted(render()["ClusterRole", "cotenant-agent"]) == rights


def test_claims_and_slices_are_touched_only_where_gpus_are_offered_by_them(render: Render) -> None:
    def more(account: str) -> set[Right]:
        offered = render({"agent": {"dra": {"enabled": True}}})["ClusterRole", account]
        return granted(offered) - granted(render()["ClusterRole", account])

    claims = {Right("resource.k8s.io", "resourceclaims", verb) for verb in ("get", "list", "watch", "create")}
    slices = {
        Right("resource.k8s.io", "resourceslices", verb) for verb in ("list", "watch", "create", "update", "delete")
    }
    assert more("cotenant-operator") == claims
    assert more("cotenant-agent") == slices | {Right("resource.k8s.io", "resourceclaims", "get")}


def test_without_questions_the_operator_asks_less(render: Render) -> None:
    def role(kind: str, values: dict[str, Any]) -> set[Right]:
        return granted(render(values)[kind, "cotenant-operator"])

    off = {"query": {"enabled": False}}
    slices = {Right("discovery.k8s.io", "endpointslices", verb) for verb in ("get", "patch", "create")}
    assert role("Role", {}) - role("Role", off) == slices
    bare = off | {"metrics": {"secure": False}}
    asked = {right.resource for right in role("ClusterRole", {}) - role("ClusterRole", bare)}
    assert asked == {"tokenreviews", "subjectaccessreviews", "apiservices"}


def test_the_agent_reads_one_runtime_class_only(render: Render) -> None:
    rules = render({"agent": {"runtimeClass": "gpu"}})["ClusterRole", "cotenant-agent"]["rules"]
    (rule,) = [rule for rule in rules if rule["resources"] == ["runtimeclasses"]]
    assert rule["resourceNames"] == ["gpu"]


def test_every_binding_names_an_account_of_the_chart(render: Render) -> None:
    for values in ({}, {"agent": {"namespace": "gpu"}}):
        objects = render(values)
        accounts = {
            (name, each["metadata"]["namespace"]) for (kind, name), each in objects.items() if kind == "ServiceAccount"
        }
        bound = {
            (subject["name"], subject["namespace"])
            for (kind, _), each in objects.items()
            if kind in {"ClusterRoleBinding", "RoleBinding"}
            for subject in each["subjects"]
        }
        assert bound == accounts
