"""The process of the embedded server: the only importer of xllamacpp. Started by `engine.embedded_server`.

Reads one line of JSON from standard input (the fields of `Orders`), loads the model, writes one line of JSON to
standard output, `{"addr": …}` or `{"error": …, "kind": "package" | "model"}`, and serves until standard input ends.
Native code may abort and holds hundreds of megabytes, so it never runs in the process of the window.
"""

import ctypes
import json
import os
import signal
import sys
import threading
from typing import TypedDict

GRACE = 3.0
"""Seconds the server has to end by itself after standard input has ended."""


class Orders(TypedDict):
    """What the parent sends."""

    parent: int
    """Process id of the parent."""
    model: str
    """Path of the gguf file."""
    port: int
    """0 = any free port."""
    context: int
    slots: int
    threads: int
    api_key: str
    template: str
    """Chat template; empty = the one in the model file."""
    alias: str


def die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies; other systems rely on the end of standard input."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        os._exit(0)


def watch_input(ended: threading.Event) -> None:
    """Set `ended` when the parent closes the pipe or dies; end the process the hard way if that does not help."""
    while os.read(0, 4096):
        pass
    ended.set()
    threading.Event().wait(GRACE)
    os._exit(0)


def parameters(orders: Orders) -> object:
    """The server's parameters: loopback only, with a key, without its web page, other origins or a large cache."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = orders["model"]
    params.model_alias = [orders["alias"]]
    params.hostnames = ["127.0.0.1"]
    params.port = orders["port"]
    params.reuse_port = False
    params.api_keys = [orders["api_key"]]
    params.ui = False
    params.cors_origins = ""
    params.endpoint_props = False
    params.endpoint_slots = True
    params.n_ctx = orders["context"]
    params.n_parallel = orders["slots"]
    params.kv_unified = True
    params.n_gpu_layers = 0
    params.cache_ram_mib = 256
    params.cpuparams.n_threads = orders["threads"]
    params.cpuparams_batch.n_threads = orders["threads"]
    params.verbosity = 1
    if orders["template"]:
        params.chat_template = orders["template"]
        params.default_template_kwargs = {"enable_thinking": "false"}  # llama.cpp's own default is true
    return params


def serve(orders: Orders, answer: int, ended: threading.Event) -> int:
    """Load the model, tell the address, wait for the end; the exit status."""

    def say(message: dict[str, str]) -> None:
        os.write(answer, json.dumps(message).encode() + b"\n")

    try:
        import xllamacpp
    except ImportError as error:
        say({"error": str(error), "kind": "package"})
        return 1
    try:
        server = xllamacpp.Server(parameters(orders))
    except RuntimeError as error:
        say({"error": str(error), "kind": "model"})
        return 1
    say({"addr": server.listening_address})
    ended.wait()
    del server  # stops it
    return 0


def main() -> int:
    """Serve until standard input ends."""
    # Native code may print: what it writes to standard output goes to the log, our answer has a descriptor of its own.
    answer = os.dup(1)
    os.dup2(2, 1)
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return 0
        line += byte
    orders: Orders = json.loads(line)
    die_with(orders["parent"])
    ended = threading.Event()
    threading.Thread(target=watch_input, args=(ended,), daemon=True).start()
    return serve(orders, answer, ended)


if __name__ == "__main__":
    sys.exit(main())
