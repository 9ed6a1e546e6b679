"""The jobs: small projects, what is asked, and how it is told whether it was done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

JOBS_FILE = Path(__file__).with_name("jobs.yaml")
CHECK_LIMIT = 60
"""Seconds of a check."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job in a project of its own."""

    name: str
    prompt: str
    files: dict[str, str]
    """The project: path → content."""
    check: str
    """A script; it runs in the project and ends with 0 when the job is done."""

    def set_up(self, folder: Path, env: Mapping[str, str]) -> None:
        """Make the project in `folder`, with git and one commit."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        person = ["-c", "user.email=a@b", "-c", "user.name=n"]
        for words in (["init", "-q"], ["add", "-A"], [*person, "commit", "-qm", "start"]):
            subprocess.run(["git", *words], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)

    def changed(self, folder: Path) -> bool:
        """Whether any file of the project differs, is new, or is gone."""
        now = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and not {".git", "__pycache__"} & set(path.relative_to(folder).parts)
        }
        return now != {name: text.encode() for name, text in self.files.items()}

    def fault(self, folder: Path, answer: Path, env: Mapping[str, str]) -> str | None:
        """The last line of the check when the job is not done, else None. `answer` holds what the program printed."""
        script = "import sys; sys.path.insert(0, '.')\n" + self.check
        try:
            done = subprocess.run(
                [sys.executable, "-B", "-c", script],
                cwd=folder,
                env={**env, "ANSWER": str(answer)},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CHECK_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the check took more than {CHECK_LIMIT} s"
        if done.returncode == 0:
            return None
        return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def all_jobs() -> tuple[Job, ...]:
    """The twelve, in their order."""
    import yaml

    return msgspec.convert(yaml.safe_load(JOBS_FILE.read_text(encoding="utf-8")), tuple[Job, ...])


def chosen_jobs(names: Collection[str]) -> tuple[Job, ...]:
    """Those of the names, or all when there are none. Raises ValueError for a name that no job has."""
    jobs = all_jobs()
    if strangers := set(names) - {job.name for job in jobs}:
        raise ValueError(f"there is no job {', '.join(sorted(strangers))}")
    return tuple(job for job in jobs if not names or job.name in names)
