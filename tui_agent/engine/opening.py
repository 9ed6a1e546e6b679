"""Opening a session, for every surface: settings, trust, model server, session folder and stream."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tui_agent import __version__, settings
from tui_agent.checkpoints.store import BlobStore
from tui_agent.common import paths
from tui_agent.common.domain import ApprovalMode, Mode
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.context.project import Project, offer_rules
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.state import EngineState, SessionStream, open_stream
from tui_agent.engine.deps import SessionDeps
from tui_agent.engine.host.command_guard import CommandGuard
from tui_agent.engine.host.environment import GrantStore, SessionBranch, ToolEnvironment
from tui_agent.engine.host.snapshots import Snapshots
from tui_agent.engine.loop.raw_replies import RawReplies
from tui_agent.engine.models.roles import ModelRoles
from tui_agent.engine.models.server import Server, ServerError, connect_server, resumed_server
from tui_agent.engine.options import AS_ROOT, SessionOpenError, SessionOptions
from tui_agent.engine.plan_doc.memory import PlanMemory
from tui_agent.engine.session import Session
from tui_agent.engine.undo import Checkpoints
from tui_agent.events import Notice, SessionOpened
from tui_agent.platform.debug_log import start_debug_log
from tui_agent.platform.files import remove_leftovers
from tui_agent.platform.locks import InUse
from tui_agent.platform.staging import remove_abandoned
from tui_agent.platform.temporary import remove_stale_folders
from tui_agent.safety import secrets as secret_values
from tui_agent.safety import trust
from tui_agent.safety.policy import load_grants
from tui_agent.safety.roots import Roots
from tui_agent.safety.sandbox import NONE, Sandbox, find_sandbox
from tui_agent.safety.secrets import values_to_mask
from tui_agent.storage.catalog import latest_for, read_entry
from tui_agent.storage.changes import fork_session
from tui_agent.storage.folder import LOG, SessionError, SessionFolder, find_session, load_info, rebuild_info
from tui_agent.storage.recovery import RecoveryReport
from tui_agent.text import SecretMask

QUESTION = "What would you like to work on?"
"""The opening question: the first line of chat_history.log (S2)."""


LEFTOVER_AGE = 3600.0
"""Seconds after which no process can still be writing a temporary file."""
LATEST = "latest"
"""Value of `resume` for the session last used in the workspace."""


async def open_session(options: SessionOptions) -> Session:
    """Open or create a session, and lock it for this process. Raises SessionOpenError."""
    try:
        return await _open(options)
    except paths.HomeNotFoundError as error:
        raise SessionOpenError(str(error)) from error


async def _open(options: SessionOptions) -> Session:
    target = await asyncio.to_thread(_resolve_target, options)
    notices = await asyncio.to_thread(_recover_commands, target, options.attended)
    trusted = options.trust or await asyncio.to_thread(trust.is_trusted, target.workspace)
    loaded = await asyncio.to_thread(_load_settings, target.workspace if trusted else None, options.flags)
    if loaded.errors:
        raise SessionOpenError("\n".join(str(problem) for problem in loaded.errors))
    sandbox = _start_finding_sandbox(target.workspace, loaded.settings)
    server = await asyncio.to_thread(_connect, loaded.settings, options.scenarios)
    folder = await asyncio.to_thread(_open_folder, target, loaded.settings)
    stream: SessionStream | None = None
    try:
        tokens = await asyncio.to_thread(settings.read_tokens, loaded.settings)
        mask = SecretMask(secret_values.values_to_mask(os.environ, tokens))
        start_debug_log(paths.debug_log_file(), mask, verbose=loaded.settings.debug)
        stream, recovered = await open_stream(folder, mask)
        server = await asyncio.to_thread(_resume_server, server, loaded.settings, stream.state, options.flags)
        opening = _Opening(options, target, trusted, loaded, server, folder, stream, recovered, notices, sandbox)
        session = await opening.create_session()
        await session.memory.open(stream.state.plan_sha256, stream.state.proposal)
        await opening.start(session)
        return session
    except BaseException as error:
        if stream is not None:
            with contextlib.suppress(JournalBroken):
                await stream.close()
        await server.model.aclose()
        await asyncio.to_thread(folder.close, "crashed")
        if isinstance(error, OSError):
            raise SessionOpenError(f"The session in {folder.path} can't be opened: {error}.", 1) from error
        raise


class _Target(msgspec.Struct):
    """The session to open, and where it works."""

    workspace: Path
    more_roots: tuple[Path, ...]
    resumed: Path | None
    """Folder of the session to resume; None creates a session."""
    fork: bool = False
    """Resume a copy instead."""


def _resolve_target(options: SessionOptions) -> _Target:
    more = tuple(_real_folder(folder, "--add-root") for folder in options.more_roots)
    if options.resume is None or (options.resume == LATEST and not options.fork):
        workspace = _real_folder(options.workspace or Path(), "--workspace")
        latest = latest_for(paths.data_dir(), workspace) if options.resume else None
        if options.resume and latest is None:
            raise SessionOpenError(f"There is no session in {workspace} to continue. Start one without --continue.")
        return _Target(workspace, more, latest)
    try:
        session = find_session(paths.sessions_dir(), options.resume)
        workspace = _workspace_of(session, options.workspace)
        return _Target(workspace, more, session, options.fork)
    except SessionError as error:
        raise SessionOpenError(str(error)) from error


def _workspace_of(session: Path, requested: Path | None) -> Path:
    """Return the session's workspace; `requested` may replace it only if it no longer exists."""
    info = load_info(session) or rebuild_info(session)
    workspace = Path(info.workspace or requested or Path())
    if not workspace.is_dir():  # session.json may be damaged
        workspace = Path(rebuild_info(session).workspace or workspace)
    if workspace.is_dir():
        if requested is None or _real_folder(requested, "--workspace") == workspace.resolve():
            return workspace.resolve()
        raise SessionOpenError(f"Session {session.name} works in {workspace}. Omit --workspace to continue it there.")
    if requested is None:
        raise SessionOpenError(
            f"The folder of this session, {workspace}, is gone. Specify its new location with --workspace."
        )
    return _real_folder(requested, "--workspace")


def _real_folder(folder: Path, flag: str) -> Path:
    try:
        real = Path(os.path.realpath(folder))
        str(real).encode()
        if real.is_dir():
            return real
    except OSError as error:
        raise SessionOpenError(f"The folder {folder} can't be used: {error.strerror}.") from error
    except UnicodeEncodeError as error:
        raise SessionOpenError(f"The name of the folder {str(folder)!r} is not valid UTF-8. Rename it.") from error
    raise SessionOpenError(f"{folder} is not a folder. Specify an existing one with {flag}.")


def _recover_commands(target: _Target, attended: bool) -> tuple[Notice, ...]:
    """Finish for commands of killed sessions what would have followed them, before anything here is read."""
    if not paths.command_notes_dir(target.workspace).is_dir():
        return ()
    from tui_agent.engine.host.quarantine import recover

    opened = None if target.fork else target.resumed
    return recover(Roots((target.workspace, *target.more_roots)), attended=attended, opened=opened)


def _load_settings(trusted_workspace: Path | None, flags: dict[str, Any]) -> settings.LoadedSettings:
    path = paths.workspace_settings_file(trusted_workspace) if trusted_workspace else None
    return settings.load_settings(paths.config_file(), path if path and path.exists() else None, None, flags)


def _start_finding_sandbox(workspace: Path, chosen: settings.Settings) -> Awaitable[Sandbox]:
    """Look for a sandbox in the background: its programs are tried, which takes tens of milliseconds."""
    search = find_sandbox if chosen.sandbox != "off" else lambda _: NONE
    return asyncio.create_task(asyncio.to_thread(search, workspace))


def _connect(chosen: settings.Settings, scenarios: Path | None) -> Server:
    try:
        return connect_server(chosen, scenarios)
    except ServerError as error:
        raise SessionOpenError(str(error)) from error


def _resume_server(server: Server, chosen: settings.Settings, state: EngineState, flags: Mapping[str, Any]) -> Server:
    """Return the server that the user chose from the list in the session before, unless the command line names one."""
    if not state.server or any(flags.get(name) for name in ("provider", "base_url", "model")):
        return server
    try:
        resumed = resumed_server(chosen, state.server)
    except ServerError as error:
        server.caution = f"{error} {server.model.endpoint} is used instead."
        return server
    if resumed is None:
        text = f"{state.server}, which this session used, is not among your servers now: {server.model.endpoint} is."
        server.caution = " ".join(filter(None, (server.caution, text)))
    return resumed or server


def _open_folder(target: _Target, chosen: settings.Settings) -> SessionFolder:
    sessions = paths.sessions_dir()
    remove_stale_folders()
    try:
        if target.resumed is not None:
            if target.fork:  # copied only now, so that a failed start leaves no copy
                target.resumed = fork(target.resumed)
            folder = SessionFolder.open(target.resumed)
            folder.save(workspace=str(target.workspace))
            return folder
        return SessionFolder.create(sessions, workspace=target.workspace, model=chosen.model or "", mode=chosen.mode)
    except InUse as error:
        copy = f"or continue in a copy: `tui-agent sessions fork {target.resumed.name}`" if target.resumed else ""
        raise SessionOpenError(f"{error} Watch it with `tail -f {target.resumed}/{LOG}`, {copy}.") from error
    except SessionError as error:
        raise SessionOpenError(str(error)) from error
    except OSError as error:
        hint = "Set TUI_AGENT_HOME to a writable folder."
        raise SessionOpenError(f"The session can't be saved in {sessions}: {error.strerror}. {hint}", 1) from error


class _Opening(msgspec.Struct):
    """The composition root: creates the parts of a session and connects them."""

    options: SessionOptions
    target: _Target
    trusted: bool
    loaded: settings.LoadedSettings
    server: Server
    folder: SessionFolder
    stream: SessionStream
    recovered: RecoveryReport
    notices: tuple[Notice, ...]
    """What to tell about commands that ran when the program was killed."""
    sandbox: Awaitable[Sandbox]

    async def create_session(self) -> Session:
        """Create the session and emit `session.opened`."""
        stream, state, chosen, attended = self.stream, self.stream.state, self.loaded.settings, self.options.attended
        workspace, folder = self.target.workspace, self.folder
        approvals = Approvals(stream)
        sandbox = await self.sandbox
        roots = await asyncio.to_thread(self._roots)
        store = BlobStore(folder.path, file_cap=chosen.caps.undo_file_bytes, total_cap=chosen.caps.undo_bytes)
        project = Project(workspace, roots, trusted=self.trusted, notify=stream.emit)
        memory = PlanMemory(
            folder.path,
            stream,
            approvals,
            attended=attended,
            accept=self.options.accept_plan,
            entries=chosen.log.entries,
        )
        environment = await self._environment(approvals, roots, store, project, memory, sandbox)
        for path, sha256 in state.seen.items():
            environment.mark_seen(Path(path), sha256)
        deps = SessionDeps(
            stream=stream,
            approvals=approvals,
            environment=environment,
            roles=self._roles(),
            project=project,
            memory=memory,
            raw=RawReplies(folder.path, stream.mask),
            accept_plan=self.options.accept_plan,
            accept_summary=self.options.accept_summary,
        )
        checkpoints = Checkpoints(stream, store, approvals=approvals if attended else None)
        session = Session(
            deps, folder, checkpoints, self.loaded, lambda: _load_settings(None, dict(self.options.flags))
        )
        checkpoints.busy = lambda: session.busy and state.ledger.run_in_progress
        await self._emit_opened(environment, deps.roles.name)
        if self.options.resume is not None and paths.command_notes_dir(workspace).is_dir():
            from tui_agent.engine.host.quarantine import report_unfinished

            await report_unfinished(stream, workspace, folder.path)
        checkpoints.report_interrupted()
        return session

    async def _environment(
        self,
        approvals: Approvals,
        roots: Roots,
        store: BlobStore,
        project: Project,
        memory: PlanMemory,
        sandbox: Sandbox,
    ) -> ToolEnvironment:
        stream, state, chosen, workspace = self.stream, self.stream.state, self.loaded.settings, self.target.workspace
        mode, approval_mode = self._modes()
        return ToolEnvironment(
            stream=stream,
            approvals=approvals,
            roots=roots,
            scratch=self.folder.scratch(),
            settings=chosen,
            mode=mode,
            approval_mode=approval_mode,
            attended=self.options.attended,
            trusted=lambda: project.trusted,
            grants=GrantStore(stream, workspace, (*await asyncio.to_thread(load_grants, workspace), *state.grants)),
            sandbox=sandbox,
            snapshots=Snapshots(stream, store),
            guard=CommandGuard(stream, store, roots, self.folder.path, saves=chosen.snapshot_commands),
            rules=project.nested,
            propose=memory.propose,
            branch=SessionBranch(roots.folders, lambda: state.title, stream) if chosen.git_branch else None,
        )

    async def start(self, session: Session) -> None:
        """Start the background work: the check of a resumed journal; if attended, trust, model server, summaries."""
        if self.options.resume is not None:
            session.check_journal()
        if not self.options.attended:
            return
        session.trust.start()
        session.look_for_model()
        session.offer_summary()

    def _roles(self) -> ModelRoles:
        chosen, model, state = self.loaded.settings, self.server.model, self.stream.state
        listed = self.server.listed
        address = listed.address if listed is not None else ""
        name = state.model_for(model.provider, chosen.model, self.options.flags, address)
        same_model = (model.provider, name, address) == (state.provider, state.model, state.server)
        roles = ModelRoles(
            model,
            name=name,
            context_window=state.context_window if same_model else None,
            settings=chosen,
            because=self.server.because,
            emit=self.stream.emit,
            log_folder=self.folder.path,
        )
        roles.listed_server = listed
        return roles

    def _modes(self) -> tuple[Mode, ApprovalMode]:
        """Return the modes: flags first, then the resumed session's, then the settings'.

        Unattended work in an untrusted folder is read-only.
        """
        chosen, flags, state = self.loaded.settings, self.options.flags, self.stream.state
        resumed = self.options.resume is not None
        mode = state.mode if resumed and state.mode and "mode" not in flags else chosen.mode
        keep_approval_mode = resumed and state.approval_mode and "approval_mode" not in flags
        approval_mode = state.approval_mode if keep_approval_mode else chosen.approval_mode
        if not self.trusted and not self.options.attended:
            approval_mode = ApprovalMode.READ_ONLY
        return Mode(mode), ApprovalMode(approval_mode)

    def _roots(self) -> Roots:
        """Return the workspace and the added folders that still exist. Does file IO."""
        existing = [root for root in map(Path, self.stream.state.roots[1:]) if root.is_dir()]
        return Roots(
            tuple(dict.fromkeys((self.target.workspace, *existing, *self.target.more_roots))),
            scratch=self.folder.scratch(),
            sensitive=self.loaded.settings.sensitive_patterns,
            protected=self.loaded.settings.protected_patterns,
        )

    async def _emit_opened(self, environment: ToolEnvironment, model: str) -> None:
        sandbox = environment.sandbox_policy.state()
        stream, resumed, attended = self.stream, self.options.resume is not None, self.options.attended
        if (recovered := self.recovered.event()) is not None:
            stream.emit(recovered)
        opened = SessionOpened(
            id=self.folder.id,
            version=__version__,
            workspace=str(self.target.workspace),
            roots=tuple(map(str, environment.roots.folders)),
            provider=self.server.model.provider,
            model=model,
            mode=environment.mode,
            approval_mode=environment.approval_mode,
            trusted=self.trusted,
            resumed=resumed,
            question="" if resumed else QUESTION,
            sandbox=sandbox.sandbox,
            sandbox_required=sandbox.sandbox_required,
            sandbox_network=sandbox.sandbox_network,
        )
        stream.emit(opened)
        notices = [str(problem) for problem in self.loaded.problems]
        root = AS_ROOT if attended and os.geteuid() == 0 else ""
        notices += filter(None, (self.server.caution, self.folder.warning, root))
        notices += await asyncio.to_thread(_clean_up)
        if not self.trusted and not attended:
            notices.append("This folder is not trusted, so the session is read-only. Use --trust to change that.")
        for text in notices:
            stream.emit(Notice(level="warning", text=text, code="session.opening"))
        for notice in self.notices:
            stream.emit(notice)
        if attended and (offer := await asyncio.to_thread(offer_rules)) is not None:
            stream.emit(offer)


def _clean_up() -> list[str]:
    """Remove temporary files of killed processes; return what the user should know about them."""
    for folder in {paths.config_dir(), paths.data_dir()}:
        remove_leftovers(folder, time.time() - LEFTOVER_AGE)
    return [
        f"{file.target} was saved by another program while tui-agent was killed; that version is in {file.path}. "
        "Compare the two, then delete it."
        for file in remove_abandoned()
    ]


def fork(session: Path) -> Path:
    """Copy the session in the folder `session`, which may be open, and return the new folder. Raises SessionError."""
    mask = SecretMask(values_to_mask(os.environ))
    return session.with_name(fork_session(read_entry(session), mask=mask))
