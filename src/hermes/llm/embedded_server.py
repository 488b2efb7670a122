"""The process behind an embedded model: llama.cpp's server on loopback, while its standard input is open."""

from __future__ import annotations

import json
import sys


def serve(wanted: str) -> None:
    import xllamacpp

    given = json.loads(wanted)
    options = xllamacpp.CommonParams()
    options.model.path = given["weights"]
    options.model_alias = {given["model"]}
    options.hostnames = ["127.0.0.1"]
    options.port = 0  # a free one
    options.api_keys = [given["key"]]  # other programs on this machine have no business here
    options.n_ctx = given["context_length"]
    options.n_parallel = 1  # one slot: every request finds the cache of the one before
    options.cache_prompt = True
    options.cpuparams.n_threads = given["threads"]
    options.cpuparams_batch.n_threads = given["threads"]
    options.use_jinja = True
    options.force_pure_content_parser = True  # calls are found by `local_calls`
    if given["template"]:
        options.chat_template = given["template"]
    server = xllamacpp.Server(options)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()  # ends when whoever started this process does, however it ends


if __name__ == "__main__":
    serve(sys.argv[1])
