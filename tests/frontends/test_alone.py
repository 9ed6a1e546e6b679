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

from tests.doubles.job import MENDED, REPORT, environment
from tests.nightly import sampled

ROOT = Path(__file__).resolve().parents[2]
ALONE = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
"""What follows runs where there is the loopback interface and no other."""
CALLS = "trace=connect,sendto,sendmsg,sendmmsg"
REACHED = re.compile(
    r'sin6?_port=htons\((\d+)\),(?: sin6_flowinfo=\w+\(\d+\),)? (?:sin_addr=inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"'
)
UNIX = re.compile(r'sa_family=AF_UNIX, sun_path=@?"([^"]*)"')


def may_be_alone() -> bool:
    return subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode == 0


class Seen:
    """What came of a front end: what it said, and every address that it or a child of it tried."""

    def __init__(self, report: dict[str, Any], trace: str) -> None:
        self.report = report
        self.tried = {(found[2], int(found[1])) for found in REACHED.finditer(trace)}
        self.resolvers = {found[1] for found in UNIX.finditer(trace) if "resolve" in found[1]}

    @property
    def elsewhere(self) -> set[tuple[str, int]]:
        ours = {self.report["model"], self.report["page"]}
        return {(name, port) for name, port in self.tried if name not in ("127.0.0.1", "::1") or port not in ours}


async def alone(surface: str, folder: Path) -> Seen:
    if not may_be_alone():
        pytest.skip("needs leave to make a network namespace")
    trace = folder / "trace"
    (folder / "place").mkdir()
    strace = shutil.which("strace")
    watched = [strace, "-f", "--seccomp-bpf", "-qq", "-s", "256", "-e", CALLS, "-o", str(trace)] if strace else []
    process = await asyncio.create_subprocess_exec(
        *ALONE, *watched, sys.executable, "-m", "tests.frontends.alone", surface, str(folder / "place"),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=ROOT, env=environment(folder), limit=2**24,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, out.decode() + err.decode()
    return Seen(json.loads(out.splitlines()[-1]), trace.read_text(errors="replace") if strace else "")


@pytest.mark.needs("unshare", "ip")
@pytest.mark.parametrize("surface", sampled(["exec", "repl", "screen", "web"], ["exec"]))
async def test_with_the_model_alone_the_whole_job_is_done_and_nothing_else_is_tried(
    surface: str, tmp_path: Path
) -> None:
    seen = await alone(surface, tmp_path)
    report = seen.report
    assert report["code"] == (143 if surface == "web" else 0), report
    assert REPORT in report["said"] and report["adder"] == MENDED
    assert report["asked"] >= 4
    assert seen.elsewhere == set() and seen.resolvers == set()
    if shutil.which("strace"):
        assert any(port == report["model"] for _, port in seen.tried)


@pytest.mark.slow
@pytest.mark.needs("unshare", "ip")
async def test_doctor_looks_at_the_model_only_and_the_demonstration_at_nothing(tmp_path: Path) -> None:
    for name in ("doctor", "demo"):
        (tmp_path / name).mkdir()
    doctor, demo = await asyncio.gather(alone("doctor", tmp_path / "doctor"), alone("demo", tmp_path / "demo"))
    findings = json.loads(doctor.report["said"])["findings"]
    server = [one for one in findings if one["group"] == "Server"]
    assert server and all(one["state"] != "bad" for one in server), findings
    assert doctor.report["asked"] >= 1
    assert doctor.elsewhere == set() and doctor.resolvers == set()
    assert demo.report["code"] == 0 and "all tests pass" in demo.report["said"], demo.report
    assert demo.report["asked"] == 0
    assert demo.tried == set() and demo.resolvers == set()


@pytest.mark.needs("unshare", "ip", "strace")
async def test_what_else_is_tried_would_be_seen(tmp_path: Path) -> None:
    seen = await alone("leaky", tmp_path)
    assert {("192.0.2.7", 443), ("192.0.2.8", 53)} <= seen.elsewhere
    servers = [
        line.split()[1]
        for line in Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines()
        if line.startswith("nameserver")
    ]
    assert not servers or any((one, 53) in seen.elsewhere for one in servers) or seen.resolvers
