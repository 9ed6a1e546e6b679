from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import FIXED, REPORT, environment
from tests.nightly import sampled

ROOT = Path(__file__).resolve().parents[2]
ISOLATED = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
"""Prefix of a command that sees no interface but loopback."""
CALLS = "trace=connect,sendto,sendmsg,sendmmsg"
CONNECTED = re.compile(
    r'sin6?_port=htons\((\d+)\),(?: sin6_flowinfo=\w+\(\d+\),)? (?:sin_addr=inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"'
)
UNIX = re.compile(r'sa_family=AF_UNIX, sun_path=@?"([^"]*)"')


def can_isolate() -> bool:
    return subprocess.run([*ISOLATED, "true"], check=False, capture_output=True).returncode == 0


class Observation:
    """The report of a front end, and every address that it or a child of it connected to."""

    def __init__(self, report: dict[str, Any], trace: str) -> None:
        self.report = report
        self.addresses = {(match[2], int(match[1])) for match in CONNECTED.finditer(trace)}
        self.resolvers = {match[1] for match in UNIX.finditer(trace) if "resolve" in match[1]}

    @property
    def elsewhere(self) -> set[tuple[str, int]]:
        allowed = {self.report["model"], self.report["page"]}
        return {
            (name, port) for name, port in self.addresses if name not in ("127.0.0.1", "::1") or port not in allowed
        }


async def run_isolated(surface: str, folder: Path) -> Observation:
    if not can_isolate():
        pytest.skip("needs permission to create a network namespace")
    trace = folder / "trace"
    (folder / "setup").mkdir()
    strace = shutil.which("strace")
    traced = [strace, "-f", "--seccomp-bpf", "-qq", "-s", "256", "-e", CALLS, "-o", str(trace)] if strace else []
    process = await asyncio.create_subprocess_exec(
        *ISOLATED, *traced, sys.executable, "-m", "tests.frontends.alone", surface, str(folder / "setup"),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=ROOT, env=environment(folder), limit=2**24,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, out.decode() + err.decode()
    return Observation(json.loads(out.splitlines()[-1]), trace.read_text(errors="replace") if strace else "")


@pytest.mark.needs("unshare", "ip")
@pytest.mark.parametrize("surface", sampled(["exec", "repl", "screen", "web"], ["exec"]))
async def test_with_the_model_alone_the_whole_job_is_done_and_nothing_else_is_tried(
    surface: str, tmp_path: Path
) -> None:
    observed = await run_isolated(surface, tmp_path)
    report = observed.report
    assert report["code"] == (143 if surface == "web" else 0), report
    assert REPORT in report["output"] and report["adder"] == FIXED
    assert report["requests"] >= 4
    assert observed.elsewhere == set() and observed.resolvers == set()
    if shutil.which("strace"):
        assert any(port == report["model"] for _, port in observed.addresses)


@pytest.mark.slow
@pytest.mark.needs("unshare", "ip")
async def test_doctor_looks_at_the_model_only_and_the_demo_at_nothing(tmp_path: Path) -> None:
    for name in ("doctor", "demo"):
        (tmp_path / name).mkdir()
    doctor, demo = await asyncio.gather(
        run_isolated("doctor", tmp_path / "doctor"), run_isolated("demo", tmp_path / "demo")
    )
    findings = json.loads(doctor.report["output"])["findings"]
    server = [one for one in findings if one["group"] == "Server"]
    assert server and all(one["state"] != "bad" for one in server), findings
    assert doctor.report["requests"] >= 1
    assert doctor.elsewhere == set() and doctor.resolvers == set()
    assert demo.report["code"] == 0 and "all tests pass" in demo.report["output"], demo.report
    assert demo.report["requests"] == 0
    assert demo.addresses == set() and demo.resolvers == set()


@pytest.mark.needs("unshare", "ip", "strace")
async def test_what_else_is_tried_would_be_seen(tmp_path: Path) -> None:
    observed = await run_isolated("leaky", tmp_path)
    assert {("192.0.2.7", 443), ("192.0.2.8", 53)} <= observed.elsewhere
    servers = [
        line.split()[1]
        for line in Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines()
        if line.startswith("nameserver")
    ]
    assert not servers or any((one, 53) in observed.elsewhere for one in servers) or observed.resolvers
