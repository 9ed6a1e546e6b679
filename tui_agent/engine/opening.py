"""Opening a session: settings, trust, model, folder and stream are put together here, for every front end."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from tui_agent import __version__, paths, settings
from tui_agent.checkpoints.store import BlobStore
from tui_agent.domain import ApprovalMode, Grant, Mode, Trusting
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.confining import Confining
from tui_agent.engine.keeping import Keeping
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.project import Project, offer_rules
from tui_agent.engine.roles import Roles
from tui_agent.engine.session import Session
from tui_agent.engine.state import EngineState, SessionStream, open_stream
from tui_agent.engine.stream import JournalBroken
from tui_agent.engine.undoing import Checkpoints
from tui_agent.engine.wishes import AS_ROOT, CannotOpen, Wishes
from tui_agent.engine.working import Absent
from tui_agent.engine.workplace import Workplace
from tui_agent.events import Notice, SessionOpened
from tui_agent.models.base import Model
from tui_agent.models.connect import BadAddress, connect, resolve_provider
from tui_agent.models.endpoint import endpoint
from tui_agent.models.scenarios import ScenarioError
from tui_agent.models.wire import Limits, default_limits
from tui_agent.platform.debug_log import keep_debug_log
from tui_agent.platform.locks import InUse
from tui_agent.safety import grants as grant_store
from tui_agent.safety import sandbox, trust
from tui_agent.safety import secrets as secret_values
from tui_agent.safety.roots import Roots
from tui_agent.storage.folder import (
    LOG,
    SessionError,
    SessionFolder,
    find,
    latest_for,
    list_sessions,
    rebuild,
)
from tui_agent.storage.recovery import Recovered
from tui_agent.text import Mask

QUESTION = "What would you like to work on?"
"""The opening question: the first line of chat_history.log (S2)."""


LATEST = "latest"
"""As `resume`: the session last used in the workspace."""


async def open_session(wishes: Wishes) -> Session:
    """Put a session together and take it into this process's hands. Raises CannotOpen."""
    try:
        return await _open(wishes)
    except paths.NoHome as error:
        raise CannotOpen(str(error)) from error


async def _open(wishes: Wishes) -> Session:
    place = await asyncio.to_thread(_place, wishes)
    trusted = wishes.trust or await asyncio.to_thread(trust.is_trusted, place.workspace)
    loaded = await asyncio.to_thread(_settings, place.workspace if trusted else None, wishes.flags)
    if loaded.errors:
        raise CannotOpen("\n".join(str(problem) for problem in loaded.errors))
    server = await asyncio.to_thread(_server, loaded.settings, wishes.scenarios)
    folder = await asyncio.to_thread(_folder, place, loaded.settings)
    parts = _Parts(wishes, place, trusted, loaded, server, folder)
    try:
        await parts.gather()
        session = parts.session()
        await session.memory.open(*parts.shown_plan)
        parts.begin(session)
        return session
    except BaseException as error:
        await parts.close()
        if isinstance(error, OSError):
            raise CannotOpen(f"The session in {folder.path} can't be opened: {error}.", 1) from error
        raise


class _Place(msgspec.Struct):
    """Where a session works."""

    workspace: Path
    more_roots: tuple[Path, ...]
    resumed: Path | None
    """Folder of the session that goes on; None begins one."""
    fork: bool = False
    """A copy of it goes on."""


def _place(wishes: Wishes) -> _Place:
    more = tuple(_real_folder(folder, "--add-root") for folder in wishes.more_roots)
    if wishes.resume is None or (wishes.resume == LATEST and not wishes.fork):
        workspace = _real_folder(wishes.workspace or Path(), "--workspace")
        last = latest_for(paths.sessions_dir(), workspace) if wishes.resume else None
        if wishes.resume and last is None:
            raise CannotOpen(
                f"There is no session in {workspace} to go on with. Start one without --continue."
            )
        return _Place(workspace, more, last)
    try:
        session = find(paths.sessions_dir(), wishes.resume)
        workspace = _workspace_of(session, wishes.workspace)
        return _Place(workspace, more, session, wishes.fork)
    except SessionError as error:
        raise CannotOpen(str(error)) from error


def _workspace_of(session: Path, named: Path | None) -> Path:
    """The folder that a session works in. Another one may be named only when that is gone: it was moved."""
    known = (info.workspace for info in list_sessions(session.parent) if info.id == session.name)
    own = Path(next(known, "") or named or Path())
    if not own.is_dir():  # session.json may be damaged
        own = Path(rebuild(session).workspace or own)
    if own.is_dir():
        if named is None or _real_folder(named, "--workspace") == own.resolve():
            return own.resolve()
        raise CannotOpen(
            f"Session {session.name} works in {own}. Leave out --workspace to go on with it there."
        )
    if named is None:
        raise CannotOpen(
            f"The folder of this session, {own}, is gone. Name where it is now with --workspace."
        )
    return _real_folder(named, "--workspace")


def _real_folder(folder: Path, flag: str) -> Path:
    try:
        real = Path(os.path.realpath(folder))
        str(real).encode()
        if real.is_dir():
            return real
    except OSError as error:
        raise CannotOpen(f"The folder {folder} can't be used: {error.strerror}.") from error
    except UnicodeEncodeError as error:
        raise CannotOpen(f"The name of the folder {str(folder)!r} is no UTF-8. Rename it.") from error
    raise CannotOpen(f"{folder} is no folder. Name an existing one with {flag}.")


def _settings(trusted_workspace: Path | None, flags: dict[str, Any]) -> settings.Loaded:
    own = paths.workspace_settings_file(trusted_workspace) if trusted_workspace else None
    return settings.load(paths.config_file(), own if own and own.exists() else None, None, flags)


class _Server(msgspec.Struct):
    """The model's server, what led to it, and what the user should know of the way there."""

    model: Model
    because: str
    caution: str = ""


def _server(chosen: settings.Settings, scenarios: Path | None) -> _Server:
    token, problem = settings.read_token(chosen)
    if problem is not None and not problem.ignored:
        raise CannotOpen(str(problem))
    try:
        choice = resolve_provider(configured=chosen.provider, base_url=chosen.base_url)
        if choice.provider == "scripted":
            return _Server(connect("scripted", "", scenarios=scenarios), choice.because)
        where = endpoint(choice.base_url, token, os.environ)
        limits = _limits(chosen.timeouts, where.local)
        model = connect(choice.provider, choice.base_url, token, limits=limits)
        return _Server(model, choice.because, where.caution)
    except (BadAddress, ScenarioError) as error:
        raise CannotOpen(str(error)) from error


def _limits(timeouts: Any, near: bool) -> Limits:
    """The watchdogs as the settings have them (M7)."""
    return msgspec.structs.replace(
        default_limits(near),
        connect=timeouts.connect,
        first_byte=timeouts.first_byte_local if near else timeouts.first_byte_remote,
        no_bytes=timeouts.idle,
        no_progress=timeouts.progress_local if near else timeouts.progress_remote,
    )


def _folder(place: _Place, chosen: settings.Settings) -> SessionFolder:
    sessions = paths.sessions_dir()
    try:
        if place.resumed is not None:
            if place.fork:  # last of all, or each start that fails would leave one
                from tui_agent.engine.forks import forked

                place.resumed = forked(place.resumed)
            folder = SessionFolder.open(place.resumed)
            folder.save(workspace=str(place.workspace))
            return folder
        return SessionFolder.create(
            sessions, workspace=place.workspace, model=chosen.model or "", mode=chosen.mode
        )
    except InUse as error:
        copy = f"or go on in a copy: `tui-agent sessions fork {place.resumed.name}`" if place.resumed else ""
        raise CannotOpen(f"{error} Read along with `tail -f {place.resumed}/{LOG}`, {copy}.") from error
    except SessionError as error:
        raise CannotOpen(str(error)) from error
    except OSError as error:
        where = "Set TUI_AGENT_HOME to a folder that can be written."
        raise CannotOpen(f"The session can't be kept in {sessions}: {error.strerror}. {where}", 1) from error


class _Parts:
    """What a session is made of, in the order in which it can be had."""

    def __init__(
        self,
        wishes: Wishes,
        place: _Place,
        trusted: bool,
        loaded: settings.Loaded,
        server: _Server,
        folder: SessionFolder,
    ) -> None:
        self._wishes = wishes
        self._workspace = place.workspace
        self._more_roots = place.more_roots
        self._trusted = trusted
        self._loaded = loaded
        self._server = server
        self._model = server.model
        self._folder = folder
        self._stream: SessionStream | None = None
        self._recovered: Recovered
        self._grants: tuple[Grant, ...] = ()
        self._found: tuple[str, ...] = ()
        self._offer: Notice | None = None
        self._sandbox = sandbox.NONE

    async def gather(self) -> None:
        """Open the stream, replay what it holds, read grants and what an untrusted folder holds."""
        mask = Mask(secret_values.values_to_mask(os.environ, settings.read_token(self._loaded.settings)[0]))
        keep_debug_log(paths.debug_log_file(), mask, verbose=self._loaded.settings.debug)
        self._stream, self._recovered = await open_stream(self._folder, mask)
        self._grants = await asyncio.to_thread(grant_store.load, self._workspace)
        known = [Path(root) for root in self._stream.state.roots[1:]]
        known = await asyncio.to_thread(lambda: [root for root in known if root.is_dir()])
        self._more_roots = tuple(dict.fromkeys((*known, *self._more_roots)))
        if self._loaded.settings.sandbox != "off":
            self._sandbox = await asyncio.to_thread(sandbox.find, self._workspace)
        if self._wishes.attended:
            self._offer = await asyncio.to_thread(offer_rules)
        if not self._trusted:
            self._found = await asyncio.to_thread(trust.survey, self._workspace)

    async def close(self) -> None:
        """Give back what was taken for a session that did not come about."""
        if self._stream is not None:
            with contextlib.suppress(JournalBroken):
                await self._stream.close()
        await self._model.aclose()
        await asyncio.to_thread(self._folder.close, "crashed")

    @property
    def shown_plan(self) -> tuple[str, str]:
        """Hash of the plan document's text as it was shown last, and the text that waits as a proposal."""
        return (one.state.plan_sha256, one.state.proposal) if (one := self._stream) is not None else ("", "")

    def session(self) -> Session:
        """Put the parts together and tell that the session is open."""
        assert self._stream is not None
        stream, state, chosen = self._stream, self._stream.state, self._loaded.settings
        approvals = Approvals(stream)
        mode, approval_mode = self._modes(state)
        workplace = Workplace(
            stream=stream,
            approvals=approvals,
            roots=self._roots(),
            scratch=self._folder.scratch(),
            settings=chosen,
            mode=mode,
            approval_mode=approval_mode,
            attended=self._wishes.attended,
            grants=(*self._grants, *state.grants),
            keep_grant=lambda grant: grant_store.save(self._workspace, grant),
        )
        store = BlobStore(
            self._folder.path, file_cap=chosen.caps.undo_file_bytes, total_cap=chosen.caps.undo_bytes
        )
        workplace.keeping = Keeping(stream, store)
        workplace.confining = Confining(chosen, workplace.roots, self._sandbox)
        for path, sha256 in state.seen.items():
            workplace.saw(Path(path), sha256)
        roles = self._roles(state)
        session = Session(
            folder=self._folder,
            stream=stream,
            approvals=approvals,
            workplace=workplace,
            roles=roles,
            project=Project(self._workspace, trusted=self._trusted, tell=stream.emit),
            memory=self._memory(stream, approvals),
            checkpoints=Checkpoints(stream, store, approvals=approvals if self._wishes.attended else None),
            absent=Absent(accept_plan=self._wishes.accept_plan, accept_summary=self._wishes.accept_summary),
        )
        self._tell(stream, roles.name, mode, approval_mode)
        session.checkpoints.busy = lambda: session.busy and state.ledger.going
        session.checkpoints.tell_cut_off()
        session.settings = self._loaded
        return session

    def begin(self, session: Session) -> None:
        """What an attended session starts with: trust, the model's server, a summary that waits."""
        if not self._wishes.attended:
            return
        if not self._trusted:
            session.ask_trust(Trusting(folder=str(self._workspace), found=self._found))
        session.look_for_model()
        session.offer_summary()

    def _roles(self, state: EngineState) -> Roles:
        chosen, same_server = self._loaded.settings, self._model.provider == state.provider
        name = state.model_for(self._model.provider, chosen.model, self._wishes.flags)
        same_model = same_server and name == state.model
        assert self._stream is not None
        return Roles(
            self._model,
            name=name,
            context_window=state.context_window if same_model else None,
            settings=chosen,
            because=self._server.because,
            tell=self._stream.emit,
        )

    def _memory(self, stream: SessionStream, approvals: Approvals) -> PlanMemory:
        attended, entries = self._wishes.attended, self._loaded.settings.log.entries
        return PlanMemory(
            self._folder.path,
            stream,
            approvals,
            attended=attended,
            accept=self._wishes.accept_plan,
            entries=entries,
        )

    def _modes(self, state: EngineState) -> tuple[Mode, ApprovalMode]:
        """Flags and settings, but a resumed session goes on as it was; never more than reading without trust."""
        chosen, flags = self._loaded.settings, self._wishes.flags
        resumed = self._wishes.resume is not None
        mode = state.mode if resumed and state.mode and "mode" not in flags else chosen.mode
        kept = resumed and state.approval_mode and "approval_mode" not in flags
        approval = state.approval_mode if kept else chosen.approval_mode
        if not self._trusted and not self._wishes.attended:
            approval = ApprovalMode.READ_ONLY
        return Mode(mode), ApprovalMode(approval)

    def _roots(self) -> Roots:
        chosen = self._loaded.settings
        return Roots(
            (self._workspace, *self._more_roots),
            scratch=self._folder.scratch(),
            sensitive=chosen.sensitive_patterns,
            protected=chosen.protected_patterns,
        )

    def _tell(self, stream: SessionStream, name: str, mode: Mode, approval_mode: ApprovalMode) -> None:
        resumed = self._wishes.resume is not None
        if (recovered := self._recovered.event()) is not None:
            stream.emit(recovered)
        opened = SessionOpened(
            id=self._folder.id,
            version=__version__,
            workspace=str(self._workspace),
            roots=tuple(str(root) for root in (self._workspace, *self._more_roots)),
            provider=self._model.provider,
            model=name,
            mode=mode,
            approval_mode=approval_mode,
            trusted=self._trusted,
            resumed=resumed,
            question="" if resumed else QUESTION,
            sandbox="off" if self._loaded.settings.sandbox == "off" else self._sandbox.shown,
        )
        stream.emit(opened)
        notices = [str(problem) for problem in self._loaded.problems]
        root = AS_ROOT if self._wishes.attended and os.geteuid() == 0 else ""
        notices += filter(None, (self._server.caution, self._folder.warning, root))
        if not self._trusted and not self._wishes.attended:
            notices.append(
                "This folder is not trusted, so the session is read-only. Use --trust to change that."
            )
        for text in notices:
            stream.emit(Notice(level="warning", text=text, code="session.opening"))
        if self._offer is not None:
            stream.emit(self._offer)
