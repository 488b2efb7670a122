"""compose.yaml, the Dockerfile and what they use: as far as that can be tried without Docker."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from postgres_server import Server, binaries
from ruamel.yaml import YAML

from hermes.settings.config import check_text

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.proves("storage.deploy")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load((ROOT / "compose.yaml").read_text())
    return found


def test_the_stack_is_a_database_two_servers_and_a_proxy_with_health_checks(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"database", "prepare", "one", "two", "proxy"}
    assert services["one"] == services["two"]
    assert "ports" not in services["one"]  # only the proxy is reached from outside
    assert "healthcheck" in services["database"]
    for service in services.values():
        for name, needed in (service.get("depends_on") or {}).items():
            assert name in services
            assert needed["condition"] in ("service_healthy", "service_completed_successfully")
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in compose["volumes"]
    docker = (ROOT / "Dockerfile").read_text()
    assert "HEALTHCHECK" in docker
    assert re.findall(r"^USER (\w+)", docker, re.MULTILINE) == ["hermes"]
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", docker, re.MULTILINE):
        assert all((ROOT / each).exists() for each in copied.split())
    variables = set(re.findall(r"\$\{(\w+):\?", (ROOT / "compose.yaml").read_text()))
    assert variables <= set(re.findall(r"^(\w+)=", (ROOT / "deploy" / "example.env").read_text(), re.MULTILINE))


def test_the_settings_of_the_stack_are_valid() -> None:
    path = ROOT / "deploy" / "config.yaml"
    found, problems = check_text(str(path), path.read_bytes())
    assert problems == []
    assert found["server.host"].value == "0.0.0.0"


def test_the_packages_of_the_image_are_those_that_were_tested() -> None:
    pins = [
        dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE))
        for name in ("postgres.txt", "dev.txt")
    ]
    assert {"psycopg", "psycopg-binary", "psycopg-pool"} == set(pins[0])
    assert pins[0].items() <= pins[1].items()


@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL 15 or newer on this machine")
def test_the_servers_login_is_behind_the_wall_from_the_start() -> None:
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    from hermes.storage.postgres.schema import migrate, status

    server = Server(str(binaries()))
    try:
        host = server.address().partition("host=")[2]
        given = {"PGHOST": host, "POSTGRES_USER": "hermes", "POSTGRES_DB": "postgres", "SERVER_PASSWORD": "it's $1"}
        subprocess.run(["sh", str(ROOT / "deploy" / "login.sh")], env=os.environ | given, check=True)
        migrate(server.address(), partitions=2)
        found = status(server.address(user="server"))
        assert (found["prepared"], found["missing"], found["warnings"]) == (True, [], [])
    finally:
        server.close()
