"""The chart, rendered by Helm itself without a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pipelines.base.settings import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
CHART = DEPLOY / "helm" / "medusa"
HELM = Path(sys.executable).with_name("helm")
FILES = {"participants/alpha.yaml": "participant: alpha\n", "networks/kept.py": "network = None\n"}
LEAST: Mapping[str, Any] = {
    "participant": "alpha",
    "image": {"repository": "registry.example/medusa"},
    "contracts": {"files": FILES},
    "catalog": {"secret": "alpha-catalog"},
    "exchange": {"name": "alpha.example"},
}
ALL: Mapping[str, Any] = {
    **LEAST,
    "image": {"repository": "registry.example/medusa", "digest": f"sha256:{'0' * 64}",
              "pullSecrets": ["registry"]},
    "contracts": {"existingClaim": "contracts"},
    "objectStore": {"secret": "alpha-objects"},
    "exchange": {"name": "alpha.example", "service": {
        "type": "LoadBalancer", "annotations": {"a.example/b": "c"},
        "loadBalancerSourceRanges": ["10.0.0.0/8"]}},
    "run": {"env": [
        {"name": "MEDUSA_SOURCE_PASSWORD",
         "valueFrom": {"secretKeyRef": {"name": "source", "key": "password"}}}]},
    "airflow": {"enabled": True},
    "metrics": {"podMonitor": {"enabled": True}, "rules": {"enabled": True}},
    "networkPolicy": {"partners": ["192.0.2.0/24"], "users": {"team": "operators"}},
    "podLabels": {"team": "streams"}, "podAnnotations": {"a": "b"}, "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high", "storage": {"storageClass": "fast"},
    "serviceAccount": {"annotations": {"role.example/arn": "x"}},
}  # fmt: skip


def helm(*words: str, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """A command of Helm about the chart, with these values."""
    return subprocess.run(
        [str(HELM), *words, str(CHART), "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


def rendered(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The resources that a release `federation` of the chart has."""
    done = helm("template", "federation", values=values)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(resources: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in resources if one["kind"] == kind]


def pod(resources: list[dict[str, Any]]) -> dict[str, Any]:
    """What the pod of the participant is."""
    (found,) = of_kind(resources, "StatefulSet")
    template: dict[str, Any] = found["spec"]["template"]
    return template
