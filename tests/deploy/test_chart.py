"""A release of the chart is valid for Kubernetes, gives no right away and says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pipelines.base.settings import REPOSITORY
from tests.deploy.chart import ALL, CHART, DEPLOY, FILES, HELM, LEAST, helm, of_kind, pod, rendered

pytestmark = pytest.mark.skipif(
    not HELM.exists(), reason="there is no package of Helm for this machine"
)
VERSIONS = ("1.27.0", "1.30.0", "1.33.0")
OWN_RESOURCES = ("monitoring.coreos.com/v1",)
"""Of the Prometheus operator: Kubernetes has no schema of them."""


@pytest.mark.parametrize("values", [LEAST, ALL], ids=["least", "all"])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_rendered_is_valid_for_kubernetes(values: Mapping[str, Any], version: str) -> None:
    for resource in rendered(values):
        if resource["apiVersion"] not in OWN_RESOURCES:
            kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("values", [LEAST, ALL], ids=["least", "all"])
def test_helm_has_nothing_to_say_against_the_chart(values: Mapping[str, Any]) -> None:
    done = helm("lint", "--strict", values=values)
    assert done.returncode == 0, done.stdout


def containers(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    spec = pod(rendered(values))["spec"]
    return [*spec["initContainers"], *spec["containers"]]


def test_no_container_runs_as_root_writes_its_image_or_gains_a_right() -> None:
    spec = pod(rendered(ALL))["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(ALL):
        secured = container["securityContext"]
        assert secured["readOnlyRootFilesystem"], container["name"]
        assert not secured["allowPrivilegeEscalation"], container["name"]
        assert secured["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]


def test_the_driver_has_no_administrators_login_and_no_secret_is_written_out() -> None:
    for container in containers(ALL):
        admin = [one for one in container["env"] if one["name"] == "MEDUSA_CATALOG_URL"]
        assert bool(admin) == (container["name"] in ("apply", "airflow")), container["name"]
        for variable in container["env"]:
            is_secret = any(
                word in variable["name"] for word in ("URL", "KEY", "TOKEN", "PASSWORD")
            )
            assert not is_secret or "secretKeyRef" in variable["valueFrom"], variable
    assert not of_kind(rendered(ALL), "Secret")


def test_no_container_has_a_token_for_the_api_of_the_cluster() -> None:
    assert pod(rendered(ALL))["spec"]["automountServiceAccountToken"] is False


def test_a_job_that_airflow_starts_has_the_address_and_the_variables_of_the_driver() -> None:
    own = {"MEDUSA_METRICS_PORT", "MEDUSA_METRICS_HOST", "MEDUSA_ENGINE"}
    (_, driver, airflow) = (
        {one["name"]: one for one in container["env"]} for container in containers(ALL)
    )
    assert {name: airflow[name] for name in driver.keys() - own} == {
        name: driver[name] for name in driver.keys() - own
    }


def test_each_contract_is_mounted_at_its_path_and_a_change_starts_a_new_pod() -> None:
    resources = rendered(LEAST)
    (config,) = of_kind(resources, "ConfigMap")
    (volume,) = [v for v in pod(resources)["spec"]["volumes"] if v["name"] == "contracts"]
    mounted = {one["path"]: config["data"][one["key"]] for one in volume["configMap"]["items"]}
    assert mounted == FILES
    changed = {**FILES, "participants/alpha.yaml": "participant: alpha\nsources: []\n"}
    other = pod(rendered({**LEAST, "contracts": {"files": changed}}))
    assert other["metadata"]["annotations"] != pod(resources)["metadata"]["annotations"]


def test_contracts_that_are_mounted_as_links_are_copied_beside_the_files_of_partners(
    tmp_path: Path,
) -> None:
    """A ConfigMap is mounted as links into a hidden folder, which a change replaces."""
    given, copied = tmp_path / "given", tmp_path / "medusa" / "contracts"
    script = (REPOSITORY / "docker" / "apply.sh").read_text().replace("/srv/", f"{tmp_path}/")
    script = script.replace("exec medusa apply", "echo")
    for number, text in enumerate(("participant: alpha\n", "participant: alpha\nruns: []\n")):
        hidden = given / f"..{number}" / "participants"
        hidden.mkdir(parents=True)
        (hidden / "alpha.yaml").write_text(text)
        (given / "..data").unlink(missing_ok=True)
        (given / "..data").symlink_to(f"..{number}")
        if number == 0:
            (given / "participants").symlink_to("..data/participants")
        subprocess.run(["sh", "-c", script], check=True, capture_output=True)
        assert (copied / "participants" / "alpha.yaml").read_text() == text
        assert not [path for path in copied.rglob("*") if path.is_symlink()]
        (copied / "participants" / "beta.yaml").write_text("participant: beta\n")
    assert (copied / "participants" / "beta.yaml").exists()
    keys = tmp_path / "medusa" / "keys"
    keys.mkdir()
    (keys / "secret").write_text("drawn")
    (keys / "secret").chmod(0o660)
    (given / "..data" / "participants" / "alpha.yaml").unlink()
    subprocess.run(["sh", "-c", script], check=True, capture_output=True)
    found = {str(path.relative_to(copied)) for path in copied.rglob("*.yaml")}
    assert found == {"participants/beta.yaml"}, "what is not given any more is gone"
    assert (keys / "secret").stat().st_mode & 0o077 == 0, "a volume's group may not read keys"


def test_a_home_can_be_made_before_its_contracts_can_be_applied() -> None:
    first = {**LEAST, "contracts": {"files": FILES, "homesOnly": True}}
    (apply, _) = containers(first)
    assert apply["command"][-2:] == ["alpha", "--homes"]
    assert "--homes" not in containers(LEAST)[0]["command"]


def test_only_partners_scrapers_and_users_reach_the_pod() -> None:
    (policy,) = of_kind(rendered(ALL), "NetworkPolicy")
    reached = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"]["ingress"]}
    assert reached["exchange"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert set(reached) == {"exchange", "metrics", "airflow"}
    assert all(reached.values()), "nothing is open to everybody"
    (policy,) = of_kind(rendered(LEAST), "NetworkPolicy")
    assert {rule["ports"][0]["port"] for rule in policy["spec"]["ingress"]} == {
        "exchange",
        "metrics",
    }


def test_each_port_and_command_of_the_pod_is_one_that_the_program_has() -> None:
    health = (REPOSITORY / "docker" / "healthy.py").read_text()
    for container in containers(ALL):
        command = container["command"]
        if command[0] == "medusa":
            done = subprocess.run(
                [sys.executable, "-m", "pipelines.cli.main", *command[1:2], "--help"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert all(word in done.stdout for word in command if word.startswith("--"))
        for name in ("startupProbe", "readinessProbe"):
            if name in container:
                part = container[name]["exec"]["command"][2]
                assert f'"{part}": ({part}, ' in health, part


REFUSED: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"participant": "Alpha; rm"}, "participant: Does not match pattern"),
    ({"participant": ""}, "participant: Does not match pattern"),
    ({"image": {"repository": ""}}, "image.repository: String length"),
    ({"contracts": {"files": {}}}, "contracts: Must validate one and only one schema"),
    ({"contracts": {"files": {"../x": "y"}}}, "Does not match pattern"),
    ({"catalog": {"secret": ""}}, "catalog.secret: String length"),
    ({"exchange": {"name": "a b"}}, "exchange.name: Does not match pattern"),
    ({"exchange": {"name": "a", "port": 443}}, "exchange.port: Must be greater than"),
    ({"runs": {}}, "Additional property runs is not allowed"),
    ({"catalog": {"secret": "s", "password": "p"}}, "Additional property password is not allowed"),
)


@pytest.mark.parametrize(("wrong", "sentence"), REFUSED, ids=[s for _, s in REFUSED])
def test_a_value_that_cannot_be_is_refused_before_anything_is_installed(
    wrong: Mapping[str, Any], sentence: str
) -> None:
    done = helm("template", "federation", values={**LEAST, **wrong})
    assert done.returncode != 0
    assert sentence in done.stderr


def test_a_folder_of_contracts_becomes_values(tmp_path: Path) -> None:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    script = str(DEPLOY / "helm" / "contracts.py")
    done = subprocess.run([sys.executable, script, str(tmp_path)], capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert json.loads(done.stdout) == {"contracts": {"files": FILES}}
    (tmp_path / "large.yaml").write_text("x" * 1_000_000)
    done = subprocess.run([sys.executable, script, str(tmp_path)], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "existingClaim" in done.stderr


def test_the_rules_that_the_chart_installs_are_those_of_the_file() -> None:
    (rule,) = of_kind(rendered(ALL), "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "rules.yaml").read_text())


def test_the_chart_has_the_version_of_the_program() -> None:
    import tomllib

    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert chart["appVersion"] == values["image"]["tag"] == version
