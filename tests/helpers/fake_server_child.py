"""Stands in for the child of the embedded server: reads the orders, then does what its argument says.

`serve`: answers as our server does, ends with its input. `stubborn`: the same, but ignores both that and SIGTERM.
`squatter`: names the address given as second argument. `exit N`, `signal N`: ends before it is ready.
`silent`: is never ready.
`broken`, `package`: says that the model or the package cannot be loaded.
"""

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def server(orders: dict[str, object]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers.get("Authorization") == f"Bearer {orders['api_key']}"
            answer = [{"is_processing": True}, {"is_processing": False}]
            body = json.dumps(answer if self.path == "/slots" else {"data": [{"id": orders["alias"]}]}).encode()
            self.send_response(200 if allowed else 401)
            self.end_headers()
            self.wfile.write(body if allowed else b"{}")

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", int(str(orders["port"]))), Handler)


def say(**message: str) -> None:
    print(json.dumps(message), flush=True)


def serve(orders: dict[str, object]) -> None:
    web = server(orders)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    print("noise before the answer", flush=True)
    say(addr=f"http://127.0.0.1:{web.server_port}")


def main(mode: str, *rest: str) -> int:
    orders = json.loads(sys.stdin.readline())
    for number in range(60):
        print(f"line {number}", file=sys.stderr, flush=True)
    match mode:
        case "serve":
            serve(orders)
            sys.stdin.read()
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            serve(orders)
            threading.Event().wait()
        case "squatter":
            say(addr=rest[0])
            sys.stdin.read()
        case "exit":
            return int(rest[0])
        case "signal":
            os.kill(os.getpid(), int(rest[0]))
        case "silent":
            sys.stdin.read()
        case "broken":
            print("model loading error", file=sys.stderr, flush=True)
            say(error="Failed to init server", kind="model")
            return 1
        case "package":
            say(error="no such library", kind="package")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
