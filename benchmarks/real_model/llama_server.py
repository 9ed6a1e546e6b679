"""Runs llama.cpp's server on a file of weights, with the interpreter in which xllamacpp is installed."""

from __future__ import annotations

import argparse
import importlib
import signal


def main() -> None:
    """Serve until a signal terminates the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--window", type=int, required=True, help="tokens")
    options = parser.parse_args()
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = options.weights
    params.n_ctx, params.n_parallel, params.port = options.window, 1, options.port
    params.use_jinja, params.warmup = True, False
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
