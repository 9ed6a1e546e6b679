"""The jobs: small projects with a task and a check of the result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

JOBS_FILE = Path(__file__).with_name("jobs.yaml")
CHECK_LIMIT = 60
"""Time limit of a check in seconds."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its project."""

    name: str
    prompt: str
    files: dict[str, str]
    """The project: path → content."""
    check: str
    """A script that runs in the project and exits with 0 if the job is done."""

    def set_up(self, folder: Path, env: Mapping[str, str]) -> None:
        """Create the project in `folder` as a git repository with one commit."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        author = ["-c", "user.email=a@b", "-c", "user.name=n"]
        for arguments in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "start"]):
            subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)

    def changed(self, folder: Path) -> bool:
        """Whether any file of the project was changed, added or removed."""
        current = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and not {".git", "__pycache__"} & set(path.relative_to(folder).parts)
        }
        return current != {name: text.encode() for name, text in self.files.items()}

    def failure(self, folder: Path, answer: Path, env: Mapping[str, str]) -> str | None:
        """The last line of the check if the job is not done, else None. `answer` is the program's output."""
        script = "import sys; sys.path.insert(0, '.')\n" + self.check
        try:
            process = subprocess.run(
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
        if process.returncode == 0:
            return None
        return (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]


def all_jobs() -> tuple[Job, ...]:
    """All jobs."""
    import yaml

    return msgspec.convert(yaml.safe_load(JOBS_FILE.read_text(encoding="utf-8")), tuple[Job, ...])


def select_jobs(names: Collection[str]) -> tuple[Job, ...]:
    """The jobs with these names, or all if none are given. Raises ValueError for an unknown name."""
    jobs = all_jobs()
    if unknown := set(names) - {job.name for job in jobs}:
        raise ValueError(f"there is no job {', '.join(sorted(unknown))}")
    return tuple(job for job in jobs if not names or job.name in names)
